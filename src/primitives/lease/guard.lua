-- Runs one command, unless its token is older than one that was seen here before.
-- KEYS  1 fence  2… keys of the command
-- ARGV  1 epoch  2 counter  3 retention_ms of the fence  4… the command
-- Returns the command's result, or the error FENCED.
return fenced(KEYS[1], ARGV[1], ARGV[2], ARGV[3]) or redis.call(unpack(ARGV, 4))
