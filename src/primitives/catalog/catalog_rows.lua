-- Follows catalog_places.lua; what others do with rows. add: 5… key, rank, spec of each; remove:
-- 5… keys; change: 5 "rank" or -  6 "spec" or -  7 "wait" to end a wait, or -  8 rank  9 spec.
-- Returns how many rows were really added or removed; change: 1, or 0 if there is no such row.
local count = 0
local noted_at_once = 200
if what == 'add' then
  for i = 5, #ARGV, 3 do
    local key, rank, spec = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if call('HEXISTS', rows, key) == 0 then
      put(key, 'free', '', '0', '0', '0', '', '', rest_of(rank, '0', '', spec, ''))
      tell(key)
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
      local _, _, _, counter = match(record, row_pattern)
      if tonumber(counter) > tonumber(removed) then removed = counter end
      call('HDEL', rows, key)
      tell(key)
      count = count + 1
    end
  end
  if count > 0 then call('HSET', rows, ' head', epoch .. ' ' .. removed) end
  note_places(noted_at_once)
  return count
end

if not record then return 0 end
local state, owner, its_epoch, counter, wait_until, from, order, rest = match(record, row_pattern)
local rank, attempts, problem, spec, note = match(rest, rest_pattern)
if ARGV[5] == 'rank' then rank = ARGV[8] end
if ARGV[6] == 'spec' then spec = ARGV[9] end
if ARGV[7] == 'wait' then
  wait_until, attempts = '0', '0'
  if state == 'failed' then state = 'free' end
end
rest = rest_of(rank, attempts, problem, spec, note)
put(key, state, owner, its_epoch, counter, wait_until, from, order, rest)
tell(key)
note_places(noted_at_once)
return 1
