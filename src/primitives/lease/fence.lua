-- The beginning of every script that writes under a lease: it refuses a token that is older than
-- one that was shown here before.
-- key       of the fence: starts with "epoch counter", the newest token; the rest is the lease's
-- ...       the token, and how many ms from now the fence remembers it
-- Returns the error FENCED, for the script to return, or nil.
local function fenced(key, epoch, counter, retention_ms)
  epoch, counter = tonumber(epoch), tonumber(counter)
  local e, c, owner = string.match(redis.call('GET', key) or '0 0', '^(%d+) (%d+)(.*)$')
  e, c = tonumber(e), tonumber(c)
  if e > epoch or e == epoch and c > counter then
    return redis.error_reply(string.format('FENCED token %.0f-%.0f is older than %.0f-%.0f', epoch,
                                           counter, e, c))
  end
  if e < epoch or c < counter then
    -- A failover lost that grant. The holder recorded here keeps the lease, and the mark makes its
    -- next renewal issue a token of its own.
    if owner ~= '' and string.sub(owner, -1) ~= '*' then owner = owner .. '*' end
    redis.call('SET', key, string.format('%.0f %.0f', epoch, counter) .. owner, 'PX', retention_ms)
  else
    redis.call('PEXPIRE', key, retention_ms)
  end
end
