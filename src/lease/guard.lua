-- Runs one command, but not for a token that is older than one that was seen here before.
-- KEYS  1 fence: begins with "epoch counter", the newest token; what follows is the lease's
--       2… keys of the command
-- ARGV  1 epoch  2 counter  3 retention_ms of the fence  4… the command
-- Returns what the command does, or the error FENCED.
local epoch, counter = tonumber(ARGV[1]), tonumber(ARGV[2])
local record = redis.call('GET', KEYS[1])
local e, c, owner = string.match(record or '0 0', '^(%d+) (%d+)(.*)$')
e, c = tonumber(e), tonumber(c)
if e > epoch or e == epoch and c > counter then
  return redis.error_reply(string.format('FENCED token %.0f-%.0f is older than %.0f-%.0f', epoch,
                                         counter, e, c))
end
if e < epoch or c < counter then
  -- A failover lost that grant. Whoever holds the lease by what is known here keeps it, and the mark
  -- has the next renewal give him a token of his own.
  if owner ~= '' and string.sub(owner, -1) ~= '*' then owner = owner .. '*' end
  redis.call('SET', KEYS[1], string.format('%.0f %.0f', epoch, counter) .. owner, 'PX', ARGV[3])
end
return redis.call(unpack(ARGV, 4))
