-- The value that others read in a lease's key, while its slot moves: see claim.lua.
-- KEYS  1 lease, as in lease.lua
-- ARGV  1 acquire, renew or release  2 value  3 previous value  4 ttl_ms
-- Returns {1}, or {0, ms until it ends, value} if another process holds it.
local what, value, before, ttl = unpack(ARGV)
local shown = redis.call('GET', KEYS[1])
local is_mine = shown and (shown == value or shown == before)
if not is_mine and (shown or what ~= 'acquire') then
  return {0, redis.call('PTTL', KEYS[1]), shown or ''}
end
if what == 'release' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], value, 'PX', ttl)
end
return {1}
