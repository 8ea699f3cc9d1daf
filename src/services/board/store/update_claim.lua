-- Changes some fields of a claim, if nobody changed it since the caller read it. With a successor,
-- that becomes the claim on the artefact in the same step.
-- KEYS  1 claim  2 claims in its old status  3 claims in its new status
--       4 grant queue that it leaves  5 grant queue that it enters
--       6 successor  7 claim by artefact  8 claims in the successor's status  9 claim ids
-- ARGV  1 id  2 status, as read  3 revision, as read  4 revision from now on
--       5 '1' if it leaves a queue  6 paused_at_ms if it enters one, or ''
--       7 id of the successor, or ''  8 channel  9 event of the successor
--       10 n: how many words the changed fields and their values are  then these
--       then the fields of the successor and their values
-- Returns {1} when changed, {0} when this very change was made before, {-1} when there is no such
-- claim, {-2, status} when it is no longer as it was read.
local claim, old_status, new_status, left, entered, successor, by_artefact, in_status, ids =
  unpack(key)
local id, next_id, words = arg[1], arg[7], tonumber(arg[10])
local read = call('HMGET', claim, 'status', 'warren_revision')
local status, revision = read[1], read[2] or ''
if not status then return {-1} end
if revision == arg[4] then return {0} end
if status ~= arg[2] or revision ~= arg[3] then return {-2, status} end
if next_id ~= '' and call('EXISTS', successor) == 1 then
  return redis.error_reply('ERR there is a claim ' .. next_id .. ' already')
end

need_sorted_sets(old_status, new_status, left, entered, in_status, ids)
call('HSET', claim, 'warren_revision', arg[4], unpack(arg, 11, 10 + words))
local since = call('ZSCORE', old_status, id) or now_ms()
call('ZREM', old_status, id)
call('ZADD', new_status, since, id)
call('ZADD', ids, 0, id)
if arg[5] == '1' then call('ZREM', left, id) end
if arg[6] ~= '' then call('ZADD', entered, 'NX', arg[6], id) end
if next_id ~= '' then
  call('HSET', successor, unpack(arg, 11 + words))
  call('SET', by_artefact, next_id)
  call('ZADD', in_status, now_ms(), next_id)
  call('ZADD', ids, 0, next_id)
  call('PUBLISH', arg[8], arg[9])
end
announce()
return {1}
