-- The claims that wait for a free worker of a role, the longest waiting first.
-- KEYS  1 queue
-- ARGV  1 add, remove or oldest  2 claim id  3 paused_at_ms
-- Returns to `oldest` {claim id, paused_at_ms}, or {}; to the others {}.
if arg[1] == 'oldest' then return call('ZRANGE', key[1], 0, 0, 'WITHSCORES') end
if arg[1] == 'add' then
  call('ZADD', key[1], 'NX', arg[3], arg[2])
else
  call('ZREM', key[1], arg[2])
end
return {}
