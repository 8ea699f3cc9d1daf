-- Creates a claim, if its artefact has none yet, and tells everybody.
-- KEYS  1 claim  2 claim by artefact  3 claims in its status  4 claim ids
--       5 unclaimed artefacts
-- ARGV  1 id  2 artefact_id  3 whose place it takes: '' for nobody's, '*' for anybody's, or the id
--       of a claim that does not exist  4 channel  5 event  6… its fields and their values
-- Returns {1, id} when created, {0, id} of the claim that was there before.
local claim, by_artefact, in_status, ids, unclaimed = unpack(key)
local id, replaces = arg[1], arg[3]

if call('EXISTS', claim) == 1 then
  if call('HGET', claim, 'artefact_id') ~= arg[2] then
    return redis.error_reply('ERR the claim ' .. id .. ' is on another artefact')
  end
  return {0, id}
end
local before = call('GET', by_artefact)
if before and replaces ~= '*' and before ~= replaces then
  call('ZREM', unclaimed, arg[2])
  return {0, before}
end

need_sorted_sets(in_status, ids, unclaimed)
call('HSET', claim, unpack(arg, 6))
call('SET', by_artefact, id)
call('ZADD', in_status, now_ms(), id)
call('ZADD', ids, 0, id)
call('ZREM', unclaimed, arg[2])
call('PUBLISH', arg[4], arg[5])
announce()
return {1, id}
