-- One lease: who holds it, under which token, and who waits for it.
-- KEYS  1 lease: the value that its holder shows to others, kept only while it is held
--       2 fence: "epoch counter attempt session since_us": the last grant; outlives the holder. A
--         "*" behind it: somebody has shown a newer token since
--       3 queue: "attempt session channel ttl_ms value" of each who waits, the first in line first
-- ARGV  1 acquire, renew or release  2 attempt  3 value  4 ttl_ms, or 0: as long as the session
--       5 session, or -  6 epoch of the topology, as the caller knows it  7 retention_ms of the fence
--       8 channel for the grant, or - for who does not wait  9 value before this one
--       10 session before this one, or -
-- Returns {1, epoch, counter, now_us} to the holder. To others: {0, ms until the lease ends unless
-- it is renewed or -1, how many are before us in the queue, now_us, value of the holder}.
local call, match, format = redis.call, string.match, string.format
local lease, fence, queue = unpack(KEYS)
local what, attempt, value, ttl, session, topology, retention, channel, before, old = unpack(ARGV)
topology = tonumber(topology)

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local epoch, counter, owner, owner_session, since, is_raised = 0, 0, '', '-', now, false
local record = call('GET', fence)
if record then
  local e, c, o, s, at, mark = match(record, '^(%d+) (%d+) ?(%S*) ?(%S*) ?(%d*)(%*?)')
  epoch, counter, owner, owner_session = tonumber(e), tonumber(c), o, s ~= '' and s or '-'
  since, is_raised = tonumber(at) or now, mark == '*'
end
local shown = call('GET', lease)
if shown and owner_session ~= '-' and what ~= 'release' and call('EXISTS', owner_session) == 0 then
  shown = false
end
local is_mine = shown and owner == attempt and (shown == value or shown == before)
local entry, old_entry  -- of the caller in the queue
if channel ~= '-' then
  local rest = ' ' .. channel .. ' ' .. ttl .. ' ' .. value
  entry = attempt .. ' ' .. session .. rest
  if old ~= '-' then old_entry = attempt .. ' ' .. old .. rest end
end

if what == 'release' then
  -- Even of the holder an entry may be left, of a session that was replaced.
  if entry then call('LREM', queue, 0, entry) end
  if old_entry then call('LREM', queue, 0, old_entry) end
end
if what ~= 'acquire' and not is_mine then return {0, 0, 0, now, shown or ''} end

-- Who has it from here on, when that is the caller again, or when nobody has it now: then the first
-- in line who still lives, or else who asks for it.
local holder, holder_session, holder_ttl, holder_value, news
if is_mine and what ~= 'release' then  -- a renewal, or an acquisition whose first answer was lost
  holder, holder_session, holder_ttl, holder_value = attempt, session, ttl, value
elseif is_mine or not shown then
  since, is_raised = now, true
  local first
  repeat
    first = call('LPOP', queue)
    if not first then
      holder, holder_session, holder_ttl, holder_value = attempt, session, ttl, value
      break
    end
    holder, holder_session, news, holder_ttl, holder_value =
      match(first, '^(%S+) (%S+) (%S+) (%d+) (.*)$')
    if holder == attempt then holder_session = session end  -- the entry may be of the one before
  until call('EXISTS', holder_session) == 1 and not (what == 'release' and holder == attempt)
  if what == 'release' and not first then
    call('DEL', lease)
    return {1, epoch, counter, now}
  end
end

if holder then
  if holder_ttl ~= '0' then holder_session = '-' end
  if is_raised or topology > epoch or holder_session ~= owner_session then
    -- The token grows by itself, by the server's clock (should this record be lost with a failover
    -- or a restart), and by the topology's epoch (should the clock of the next server be behind).
    epoch = math.max(epoch, topology)
    counter = math.max(counter + 1, now)
    owner, owner_session = holder, holder_session
    call('SET', fence, format('%d %d %s %s %d', epoch, counter, owner, owner_session, since),
         'PX', retention)
  else
    call('PEXPIRE', fence, retention)
  end
  call('SET', lease, holder_value, 'PX', holder_ttl == '0' and retention or holder_ttl)
  if holder ~= attempt then
    call('SPUBLISH', news, format('%s %d %d %d', holder, epoch, counter, now))
  end
  if holder == attempt or what == 'release' then return {1, epoch, counter, now} end
  shown = holder_value
end

local place = 0
if entry then
  place = call('LPOS', queue, entry)
  if not place and old_entry then
    place = call('LPOS', queue, old_entry)
    if place then call('LSET', queue, place, entry) end
  end
  if not place then
    place = call('RPUSH', queue, entry) - 1
    call('PEXPIRE', queue, retention)
  end
end
return {0, call('PTTL', owner_session ~= '-' and owner_session or lease), place, now, shown}
