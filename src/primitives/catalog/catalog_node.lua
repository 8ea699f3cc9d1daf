-- Follows catalog.lua. join: 5 ttl_ms  6 info; beat: 5 info; leave.
-- Returns 1, or 0 if the lease of this session has ended.
if what == 'join' then
  call('HSET', nodes, session, ARGV[5] .. ' ' .. ARGV[6])
  call('HSET', rows, ' ' .. session, format('%.0f', now + ARGV[5] * 1000))
  return 1
end
if not lasts(lease) then return 0 end
if what == 'beat' then
  local ttl, info = match(call('HGET', nodes, session), '^(%d+) (.*)$')
  call('HSET', rows, ' ' .. session, format('%.0f', now + ttl * 1000))
  if info ~= ARGV[5] then call('HSET', nodes, session, ttl .. ' ' .. ARGV[5]) end
else
  call('HSET', rows, ' ' .. session, '0')
end
return 1
