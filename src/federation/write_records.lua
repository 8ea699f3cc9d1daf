-- Writes what other clusters told, and tells the other instances of this one; all of it or nothing.
-- KEYS  1 fence of the writer's lease: "epoch counter", the newest token, then what is the lease's
--       2… one key per record
-- ARGV  1 epoch, or '' for who writes under no lease  2 counter  3 retention_ms of the fence
--       4 channel  5 message
--       then for each record: set, hash, keep or del; ttl_ms; value
-- Returns the places of records that were to be kept and are not there. The error FENCED: somebody
-- was granted the lease since, and nothing was written.
local call = redis.call

-- As in lease/guard.lua.
if ARGV[1] ~= '' then
  local epoch, counter = tonumber(ARGV[1]), tonumber(ARGV[2])
  local e, c, owner = string.match(call('GET', KEYS[1]) or '0 0', '^(%d+) (%d+)(.*)$')
  e, c = tonumber(e), tonumber(c)
  if e > epoch or e == epoch and c > counter then
    return redis.error_reply(string.format('FENCED token %.0f-%.0f is older than %.0f-%.0f', epoch,
                                           counter, e, c))
  end
  if e < epoch or c < counter then
    if owner ~= '' and string.sub(owner, -1) ~= '*' then owner = owner .. '*' end
    call('SET', KEYS[1], string.format('%.0f %.0f', epoch, counter) .. owner, 'PX', ARGV[3])
  end
end

local missing = {}
for i = 2, #KEYS do
  local key, at = KEYS[i], 3 * i
  local what, ttl, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if what == 'set' then
    call('SET', key, value, 'PX', ttl)
  elseif what == 'keep' then
    if call('PEXPIRE', key, ttl) == 0 then missing[#missing + 1] = i - 2 end
  elseif what == 'hash' then  -- fields of others stay
    for field, text in pairs(cjson.decode(value)) do
      if text == cjson.null then call('HDEL', key, field) else call('HSET', key, field, text) end
    end
    call('PEXPIRE', key, ttl)
  else
    call('DEL', key)
  end
end
call('SPUBLISH', ARGV[4], ARGV[5])
return missing
