-- A page of an index, or of several as if they were one, from behind a cursor on.
-- KEYS  1… indexes: ids by time; no id is in two of them
-- ARGV  1 'newest' or 'oldest' first  2 since_ms  3 until_ms  4 most
--       5 time of the cursor, or ''  6 id of the cursor
-- Returns id, time, id, time, … the oldest first.
local call = redis.call
local order, since, last, most, at, id = unpack(ARGV)

local function page(index)
  local low = call('ZCOUNT', index, '-inf', '(' .. since)
  local high = call('ZCOUNT', index, '-inf', last) - 1
  if at ~= '' then
    local below, above  -- the places beside the cursor
    local score = call('ZSCORE', index, id)
    if score and tonumber(score) == tonumber(at) then
      local place = call('ZRANK', index, id)
      below, above = place - 1, place + 1
    else  -- it has left the index since, or is in another one
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
end

if #KEYS == 1 then return page(KEYS[1]) end
local entries = {}
for _, index in ipairs(KEYS) do
  local found = page(index)
  for i = 1, #found, 2 do
    entries[#entries + 1] = {found[i], found[i + 1], tonumber(found[i + 1])}
  end
end
table.sort(entries, function(a, b)
  if a[3] ~= b[3] then return a[3] < b[3] end
  return a[1] < b[1]
end)
local first = order == 'newest' and math.max(#entries - most, 0) or 0
local result = {}
for i = first + 1, math.min(first + most, #entries) do
  result[#result + 1] = entries[i][1]
  result[#result + 1] = entries[i][2]
end
return result
