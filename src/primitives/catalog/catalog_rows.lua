-- Behind catalog_places.lua; what others do with rows. add: 5… key, rank, spec of each; remove: 5… keys;
-- change: 5 "rank" or -  6 "spec" or -  7 "wait" to end a wait, or -  8 rank  9 spec.
-- Returns how many rows there are of which that is true now and was not before; change: 1, or 0 when
-- there is no such row.
local count = 0
local noted_at_once = 200
if what == 'add' then
  for i = 5, #ARGV, 3 do
    local key, rank, spec = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if call('HEXISTS', rows, key) == 0 then
      local row = {state = 'free', owner = '', epoch = '0', counter = '0', wait_until = '0', from = '',
                   order = ''}
      set_details(row, rank, '0', '', spec, '')
      keep(key, row)
      count = count + 1
    end
  end
  note_places(noted_at_once)
  return count
end

if what == 'remove' then
  for i = 5, #ARGV do
    local key = ARGV[i]
    local record = sub(key, 1, 1) ~= ' ' and call('HGET', rows, key)
    if record then
      counter = math.max(counter, row_of(record).counter)
      call('HDEL', rows, key)
      tell(key)
      count = count + 1
    end
  end
  if count > 0 then keep_head() end
  note_places(noted_at_once)
  return count
end

if not record then return 0 end
local row = row_of(record)
local rank, attempts, problem, spec, note = details_of(row)
if ARGV[5] == 'rank' then rank = ARGV[8] end
if ARGV[6] == 'spec' then spec = ARGV[9] end
if ARGV[7] == 'wait' then
  row.wait_until, attempts = '0', '0'
  if row.state == 'failed' then row.state = 'free' end
end
set_details(row, rank, attempts, problem, spec, note)
keep(key, row)
note_places(noted_at_once)
return 1
