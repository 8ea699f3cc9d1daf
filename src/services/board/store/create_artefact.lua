-- Creates an artefact, which never changes again, and tells everybody.
-- KEYS  1 artefact  2 thread  3 artefacts by time  4 those of its type  5 types  6 artefact ids
--       7 unclaimed artefacts  8… children of each of its sources
-- ARGV  1 id  2 'exact' or 'next'  3 version: this one, or at least this one  4 created_at_ms, or 0
--       for now  5 type  6 '1' if somebody should claim it  7 channel  8 event, up to the version
--       9 event, from there up to the time  10… the fields but for these two, and their values
-- Returns {1, version, created_at_ms}; the same with 0 when this very artefact was there before;
-- {-1, field} when another one was; {-2, id} when that one has this version.
local artefact, thread, by_time, of_type, types, ids, unclaimed = unpack(key)
local id, wanted, created = arg[1], tonumber(arg[3]), arg[4]
local is_next = arg[2] == 'next'

if call('EXISTS', artefact) == 1 then
  for i = 10, #arg, 2 do
    local value = call('HGET', artefact, arg[i]) or ''
    if arg[i + 1] == '[]' and (value == '' or value == 'null') then value = '[]' end
    if value ~= arg[i + 1] then return {-1, arg[i]} end
  end
  local version = call('HGET', artefact, 'version') or ''
  local at = call('HGET', artefact, 'created_at_ms') or '0'
  if not is_next and version ~= arg[3] then return {-1, 'version'} end
  if created ~= '0' and at ~= created then return {-1, 'created_at_ms'} end
  return {0, version, at}
end

need_sorted_sets(thread, by_time, of_type, ids, unclaimed, unpack(key, 8))
call('SCARD', types)
local version = wanted
if is_next then
  local newest = call('ZREVRANGE', thread, 0, 0, 'WITHSCORES')[2]
  if newest then version = math.max(wanted, math.floor(tonumber(newest)) + 1) end
  if not (version < 9007199254740992) then return redis.error_reply('ERR no version is left') end
else
  local other = call('ZRANGEBYSCORE', thread, wanted, wanted, 'LIMIT', 0, 1)[1]
  if other and other ~= id then return {-2, other} end
end
version = string.format('%.0f', version)
if created == '0' then created = now_ms() end

call('HSET', artefact, 'version', version, 'created_at_ms', created, unpack(arg, 10))
call('ZADD', thread, version, id)
call('ZADD', by_time, created, id)
call('ZADD', of_type, created, id)
call('SADD', types, arg[5])
call('ZADD', ids, 0, id)
if arg[6] == '1' then call('ZADD', unclaimed, created, id) end
for i = 8, #key do
  local last = call('ZREVRANGE', key[i], 0, 0, 'WITHSCORES')[2] or 0
  call('ZADD', key[i], 'NX', last + 1, id)
end
call('PUBLISH', arg[7], arg[8] .. version .. arg[9] .. created .. '}')
announce()
return {1, version, created}
