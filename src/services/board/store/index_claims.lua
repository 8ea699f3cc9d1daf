-- Puts claims into the index of the status that each of them has, and of no other.
-- KEYS  1 claim ids  2 to 7 claims in each status  8… the claims
-- ARGV  1 to 6 the statuses, in the order of their indexes  7… the ids, in the order of the claims
-- Returns how many of the claims there are.
local call, count, found = redis.call, 6, 0
local time = call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
for i = count + 2, #KEYS do
  local id, since = ARGV[i - 1], nil
  local status = call('HGET', KEYS[i], 'status')
  for s = 1, count do
    local index = KEYS[s + 1]
    since = call('ZSCORE', index, id) or since
    if ARGV[s] ~= status then call('ZREM', index, id) end
  end
  for s = 1, count do
    if ARGV[s] == status then call('ZADD', KEYS[s + 1], since or now, id) end
  end
  if status then
    found = found + 1
    call('ZADD', KEYS[1], 0, id)
  else
    call('ZREM', KEYS[1], id)
  end
end
return found
