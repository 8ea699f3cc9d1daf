-- A page of an index, from behind a cursor on.
-- KEYS  1 index: ids by time
-- ARGV  1 'newest' or 'oldest' first  2 since_ms  3 until_ms  4 most
--       5 time of the cursor, or ''  6 id of the cursor
-- Returns id, time, id, time, … the oldest first.
local call, index = redis.call, KEYS[1]
local order, since, last, most, at, id = unpack(ARGV)
local low = call('ZCOUNT', index, '-inf', '(' .. since)
local high = call('ZCOUNT', index, '-inf', last) - 1
if at ~= '' then
  local below, above  -- the places beside the cursor
  local score = call('ZSCORE', index, id)
  if score and tonumber(score) == tonumber(at) then
    local place = call('ZRANK', index, id)
    below, above = place - 1, place + 1
  else  -- it has left the index since
    above = call('ZCOUNT', index, '-inf', '(' .. at)
    for _, other in ipairs(call('ZRANGEBYSCORE', index, at, at)) do
      if other < id then above = above + 1 end
    end
    below = above - 1
  end
  if order == 'newest' then high = math.min(high, below) else low = math.max(low, above) end
end
if order == 'newest' then
  low = math.max(low, high - most + 1)
else
  high = math.min(high, low + most - 1)
end
if low > high then return {} end
return call('ZRANGE', index, low, high, 'WITHSCORES')
