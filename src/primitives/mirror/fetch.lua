-- Values, and the place in the log at which they were so; no more than a number of bytes of them.
-- KEYS  1 head  2… values
-- ARGV  1 bytes
-- Returns {tail, value…}; the tail is 'id stamp born', or nil before the first entry. The values
-- end with the one that reaches the bytes: what is missing behind it is to be asked for again.
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
