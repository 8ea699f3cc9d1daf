-- Follows catalog_places.lua; what can be read.
-- claimable: 5 how many. Returns now_ms, then key, record, … of rows without an owner. Returns 0 if
--   so much has changed that the caller should ask again, to give others a turn.
-- nodes. Returns now_us, then session, "ttl_ms info", until when in us, …
-- changes: 5 birth, epoch and number of the position, 8 how many. Returns {birth, epoch, number,
--   now_ms, changed rows: key, record, …, removed rows: keys}, or just {birth, epoch, number,
--   now_ms} if too much has happened since, or the position is of another history.
if what == 'nodes' then
  local answer = {format('%.0f', now)}
  local all = call('HGETALL', nodes)
  for i = 1, #all, 2 do
    local lease = call('HGET', rows, ' ' .. all[i])
    if lasts(lease) then
      answer[#answer + 1] = all[i]
      answer[#answer + 1] = all[i + 1]
      answer[#answer + 1] = lease
    end
  end
  return answer
end

if what == 'claimable' then
  if not note_places(300) then return 0 end
  -- The rows of nodes that are gone: some now, the rest with the next call.
  local left = 200
  for _, session in ipairs(call('HKEYS', nodes)) do
    if left > 0 and not lives(session) then
      local place = place_of(session)
      local held = call('ZRANGEBYSCORE', places, place, place, 'LIMIT', 0, left)
      for _, key in ipairs(held) do
        local _, _, its_epoch, counter, wait_until, from, order, rest =
          match(call('HGET', rows, key), row_pattern)
        put(key, 'free', '', its_epoch, counter, wait_until, from, order, rest)
        tell(key)
      end
      left = left - #held
      if left > 0 then
        call('HDEL', nodes, session)
        call('HDEL', rows, ' ' .. session)
      end
    end
  end
  note_places(300)
  for _, key in ipairs(call('ZRANGEBYSCORE', places, waiting, waiting + now_ms, 'LIMIT', 0, 200)) do
    place(key)
  end
  local answer = {format('%.0f', now_ms)}
  for _, key in ipairs(call('ZRANGEBYSCORE', places, -most_rank, most_rank, 'LIMIT', 0, ARGV[5])) do
    answer[#answer + 1] = key
    answer[#answer + 1] = call('HGET', rows, key)
  end
  return answer
end

local birth, floor = read_list()
local since, last = tonumber(ARGV[7]), floor + call('LLEN', changes)
if ARGV[5] ~= birth or ARGV[6] ~= epoch or since < floor or since > last then
  return {birth, epoch, format('%.0f', last), format('%.0f', now_ms)}
end
local entries = call('LRANGE', changes, since - floor, since - floor + ARGV[8] - 1)
local upto = since + #entries
local seen, some, removed = {}, {}, {}
for _, key in ipairs(entries) do
  local record = not seen[key] and call('HGET', rows, key)
  if record then
    some[#some + 1] = key
    some[#some + 1] = record
  elseif not seen[key] then
    removed[#removed + 1] = key
  end
  seen[key] = true
end
return {birth, epoch, format('%.0f', upto), format('%.0f', now_ms), some, removed}
