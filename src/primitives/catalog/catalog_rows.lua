-- Behind catalog.lua; what others do with rows. add: 4… key, rank, spec of each; remove: 4… keys;
-- change: 4 key  5 "rank" or -  6 "spec" or -  7 "wait" to end a wait, or -  8 rank  9 spec.
-- Returns how many rows there are of which that is true now and was not before; change: 1, or 0 when
-- there is no such row.
local count = 0
if what == 'add' then
  for i = 4, #ARGV, 3 do
    local key, rank, spec = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if call('HEXISTS', rows, key) == 0 then
      local row = {state = 'free', owner = '', epoch = '0', counter = '0', rank = rank, attempts = '0',
                   wait_until = '0', from = '', order = '', error = '', spec = spec, note = ''}
      call('ZREM', gone, key)
      keep(key, row)
      offer(key, row)
      count = count + 1
    end
  end
elseif what == 'remove' then
  for i = 4, #ARGV do
    local key = ARGV[i]
    local record = call('HGET', rows, key)
    if record then
      local row = row_of(record)
      if row.owner ~= '' then call('ZREM', owned, row.owner .. ' ' .. key) end
      call('ZREM', offered, key)
      call('ZREM', waiting, key)
      call('HDEL', rows, key)
      call('ZREM', changed, key)
      change = change + 1
      call('ZADD', gone, change, key)
      count = count + 1
    end
  end
  -- Who is so far behind reads everything.
  local too_many = call('ZCARD', gone) - 10000
  if too_many > 0 then
    local last = call('ZRANGE', gone, too_many - 1, too_many - 1, 'WITHSCORES')
    floor = tonumber(last[2])
    call('ZREMRANGEBYSCORE', gone, '-inf', last[2])
  end
else
  local key = ARGV[4]
  local record = call('HGET', rows, key)
  if not record then return 0 end
  local row = row_of(record)
  if ARGV[5] == 'rank' then row.rank = ARGV[8] end
  if ARGV[6] == 'spec' then row.spec = ARGV[9] end
  if ARGV[7] == 'wait' then
    row.wait_until, row.attempts = '0', '0'
    if row.state == 'failed' then row.state = 'free' end
  end
  keep(key, row)
  if row.owner == '' then offer(key, row) end
  count = 1
end
if change > change_before then keep_head() end
return count
