-- Takes the name from an instance whose process is known to be dead.
-- KEYS  1 lock of the instance  2 list of instances  3 list of boards
-- ARGV  1 name  2 what its lock has in it: the run_id
-- Returns 1 when that lock was removed; 0 when another run has the name, or nobody.
-- The fence stays: who has the name next gets a newer token.
local lock = redis.call('GET', KEYS[1])
if not lock or not string.find(lock, ARGV[2], 1, true) then return 0 end
redis.call('DEL', KEYS[1])
local entry = redis.call('HGET', KEYS[2], ARGV[1])
if entry and string.find(entry, ARGV[2], 1, true) then
  redis.call('HSETNX', KEYS[3], ARGV[1], entry)
  redis.call('HDEL', KEYS[2], ARGV[1])
end
return 1
