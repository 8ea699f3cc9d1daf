-- Reads values and the place in the log at which they were current, up to a number of bytes.
-- KEYS  1 head  2… values
-- ARGV  1 bytes
-- Returns {tail, value…}. The tail is 'id stamp born', or nil before the first entry. The last
-- value is the one that reaches the bytes: the caller asks again for the rest.
local answer = {redis.call('HGET', KEYS[1], 'tail')}
local left, count = tonumber(ARGV[1]), 1
while #answer < #KEYS do
  local first = #answer + 1
  local values = redis.call('MGET', unpack(KEYS, first, math.min(first + count - 1, #KEYS)))
  for i = 1, #values do
    answer[first + i - 1] = values[i]
    left = left - (values[i] and #values[i] or 0)
    if left <= 0 then return answer end
  end
  count = math.min(2 * count, 32)  -- few at first: they may be large
end
return answer
