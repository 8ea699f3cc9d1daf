-- Reads the log from an entry on, up to a number of entries and of bytes.
-- KEYS  1 log
-- ARGV  1 id of the entry  2 entries  3 bytes
-- Returns the entries as XRANGE does, up to the one that reaches a bound. If there may be more, a
-- number follows them: the bytes of the whole log, or -1 if Redis does not say.
local answer = {}
local from, most, left, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 1
while left > 0 and #answer < most do
  count = math.min(count, most - #answer)
  local page = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', count)
  for i = 1, #page do
    local fields = page[i][2]
    answer[#answer + 1] = page[i]
    left = left - 100 - #fields[#fields]  -- the batch is the last field
    if left <= 0 then break end
  end
  if left > 0 and #page < count then return answer end
  from = '(' .. answer[#answer][1]
  count = math.min(2 * count, 32)  -- few at first: they may be large
end
local bytes = redis.pcall('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', 0)
answer[#answer + 1] = type(bytes) == 'number' and bytes or -1
return answer
