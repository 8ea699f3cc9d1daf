-- Removes the entry of an instance that is no more; its board stays, and so it stays in the list of
-- those.
-- KEYS  1 list of instances  2 lock of the instance  3 list of boards
-- ARGV  1 name
-- Returns 1 when it was removed, 0 when it is not there or its lock still is.
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if entry then redis.call('HSETNX', KEYS[3], ARGV[1], entry) end
return redis.call('HDEL', KEYS[1], ARGV[1])
