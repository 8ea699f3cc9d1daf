-- Removes the entry of an instance that is no more.
-- KEYS  1 list of instances  2 lock of the instance
-- ARGV  1 name
-- Returns 1 when it was removed, 0 when it is not there or its lock still is.
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
