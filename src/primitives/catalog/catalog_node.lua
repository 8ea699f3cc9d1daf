-- Behind catalog.lua. join session ttl_ms info; beat session info; leave session.
-- Returns 1, or 0: the lease of this session has ended.
local session = ARGV[4]
if what == 'join' then
  local ttl = tonumber(ARGV[5])
  call('HSET', nodes, session, ARGV[5] .. ' ' .. ARGV[6])
  call('ZADD', ends, now + ttl * 1000, session)
  keep_head()
  return 1
end
if not lives(session) then return 0 end
if what == 'beat' then
  local ttl, info = match(call('HGET', nodes, session), '^(%d+) (.*)$')
  call('ZADD', ends, now + ttl * 1000, session)
  if info ~= ARGV[5] then call('HSET', nodes, session, ttl .. ' ' .. ARGV[5]) end
else
  call('ZADD', ends, 0, session)
end
return 1
