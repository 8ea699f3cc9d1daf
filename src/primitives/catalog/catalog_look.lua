-- Behind catalog.lua; what is there to see.
-- claimable: 4 how many. Returns now_ms, then key, record, … of rows without an owner.
-- nodes. Returns now_us, then session, "ttl_ms info", until when in us, …
-- changes: 4 birth, epoch and change of the position, 7 how many. Returns {birth, epoch, change, now_ms,
--   what changed: key, record, …, what is gone: keys}, or just {birth, epoch, change, now_ms}: too much
--   has happened since, or it was in another history.
if what == 'nodes' then
  local answer = {format('%.0f', now)}
  local alive = call('ZRANGEBYSCORE', ends, '(' .. format('%.0f', now), '+inf', 'WITHSCORES')
  for i = 1, #alive, 2 do
    answer[#answer + 1] = alive[i]
    answer[#answer + 1] = call('HGET', nodes, alive[i]) or '0 '
    answer[#answer + 1] = alive[i + 1]
  end
  return answer
end

if what == 'claimable' then
  -- The rows of those who are gone: some now, the rest with the next look.
  local left = 200
  for _, session in ipairs(call('ZRANGEBYSCORE', ends, '-inf', format('%.0f', now), 'LIMIT', 0, 10)) do
    local entries = call('ZRANGEBYLEX', owned, '[' .. session .. ' ', '(' .. session .. '!', 'LIMIT', 0, left)
    for _, entry in ipairs(entries) do
      local key = string.sub(entry, #session + 2)
      local row = row_of(call('HGET', rows, key))
      call('ZREM', owned, entry)
      row.owner, row.state = '', 'free'
      keep(key, row)
      offer(key, row)
    end
    left = left - #entries
    if left == 0 then break end
    call('ZREM', ends, session)
    call('HDEL', nodes, session)
  end
  for _, key in ipairs(call('ZRANGEBYSCORE', waiting, '-inf', now_ms, 'LIMIT', 0, 200)) do
    local row = row_of(call('HGET', rows, key))
    call('ZREM', waiting, key)
    call('ZADD', offered, -tonumber(row.rank), key)
  end
  if change > change_before then keep_head() end
  local answer = {format('%.0f', now_ms)}
  for _, key in ipairs(call('ZRANGE', offered, 0, ARGV[4] - 1)) do
    answer[#answer + 1] = key
    answer[#answer + 1] = call('HGET', rows, key)
  end
  return answer
end

if is_new or call('EXISTS', head) == 0 then keep_head() end
local since = tonumber(ARGV[6])
if ARGV[4] ~= birth or tonumber(ARGV[5]) ~= epoch or since < floor or since > change then
  return {birth, format('%.0f', epoch), format('%.0f', change), format('%.0f', now_ms)}
end
local most = tonumber(ARGV[7])
local entries = call('ZRANGEBYSCORE', changed, '(' .. format('%.0f', since), '+inf', 'WITHSCORES', 'LIMIT', 0, most)
local upto = format('%.0f', change)
if #entries == 2 * most then upto = entries[#entries] end
local some = {}
for i = 1, #entries, 2 do
  some[#some + 1] = entries[i]
  some[#some + 1] = call('HGET', rows, entries[i])
end
local removed = call('ZRANGEBYSCORE', gone, '(' .. format('%.0f', since), upto)
return {birth, format('%.0f', epoch), upto, format('%.0f', now_ms), some, removed}
