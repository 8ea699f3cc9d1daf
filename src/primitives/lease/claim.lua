-- The lease while its slot moves to another server. The keys of a lease may then be on two servers,
-- and no server runs a script that needs both. So this script decides by the fence alone, and
-- show.lua by the lease's key alone: the process that has both has the lease. It is not handed to
-- waiters.
-- KEYS  1 fence, as in lease.lua
-- ARGV  1 to 7 as in lease.lua
-- Returns what lease.lua returns.
local format = string.format
local what, attempt, _, ttl, _, topology, retention = unpack(ARGV)
topology = tonumber(topology)
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local record = redis.call('GET', KEYS[1]) or '0 0'
local e, c, owner, session, since, ends, mark =
  string.match(record, '^(%d+) (%d+) ?(%S*) ?(%S*) ?(%d*) ?(%d*)(%*?)')
local epoch, counter = tonumber(e), tonumber(c)
local is_mine = owner == attempt
if not is_mine then
  -- Whether a grant without an end still lasts is known only to the lease's key or the session's.
  local rest = owner == '' and 0 or ends == '' and 1000 or ends - now / 1000
  if what ~= 'acquire' then return {0, 0, 0, now, ''} end
  if rest > 0 then return {0, math.ceil(math.min(rest, 1000)), 0, now, ''} end
end
if not is_mine or mark == '*' or topology > epoch then
  epoch = math.max(epoch, topology)
  counter = math.max(counter + 1, now)
  if not is_mine then since = format('%d', now) end
end
ends = what == 'release' and 0 or now / 1000 + ttl
redis.call('SET', KEYS[1], format('%d %d %s - %s %d', epoch, counter, attempt, since, ends), 'PX',
           retention)
return {1, epoch, counter, now}
