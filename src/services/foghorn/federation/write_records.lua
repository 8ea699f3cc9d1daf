-- Writes what other clusters told, and tells the other instances of this one; all of it or nothing.
-- Stands behind primitives/lease/fence.lua.
-- KEYS  1 fence of the writer's lease: "epoch counter", the newest token, then what is the lease's
--       2… one key per record
-- ARGV  1 epoch, or '' for who writes under no lease  2 counter  3 retention_ms of the fence
--       4 channel  5 message
--       then for each record: set, hash, keep or del; ttl_ms; value
-- Returns the places of records that were to be kept and are not there. The error FENCED: somebody
-- was granted the lease since, and nothing was written.
local call = redis.call

if ARGV[1] ~= '' then
  local refusal = fenced(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
  if refusal then return refusal end
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
