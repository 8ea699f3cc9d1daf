-- One lease: which process holds it, under which token, and which processes wait for it.
-- KEYS  1 lease: the value that the holder shows to others; exists only while the lease is held
--       2 fence: "epoch counter attempt session since_us until_ms", the last grant; outlives the
--         holder. until_ms is there if the lease has a ttl of its own. A "*" at the end: a newer
--         token has been shown since
--       3 queue: "attempt session channel ttl_ms value" of each waiter, the first in line first
-- ARGV  1 acquire, renew or release  2 attempt  3 value  4 ttl_ms, or 0: lives with the session
--       5 session, or -; of a waiter without one "…@ms": how long its entry counts unless it asks
--         again
--       6 epoch of the topology, as the caller knows it  7 retention_ms of the fence
--       8 channel for the grant, or - if the caller does not wait  9 previous value
--       10 previous session, or -; of a waiter without one "…@" and the time in ms until which its
--          entry counts
-- Returns {1, epoch, counter, now_us} to the holder. To others it returns {0, ms until the lease
-- ends unless it is renewed, or -1; number of waiters before us, or -1: the queue is full; now_us;
-- value of the holder}.
local call, match, format = redis.call, string.match, string.format
local lease, fence, queue = unpack(KEYS)
local what, attempt, value, ttl, session, topology, retention, channel, before, old = unpack(ARGV)
topology = tonumber(topology)

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whether a waiter is still alive.
local function lives(name)
  local until_ms = match(name, '@(%d+)$')
  if until_ms then return until_ms * 1000 > now end
  return call('EXISTS', name) == 1
end

local epoch, counter, owner, owner_session, since, is_raised = 0, 0, '', '-', now, false
local record = call('GET', fence)
if record then
  local e, c, o, s, at, mark = match(record, '^(%d+) (%d+) ?(%S*) ?(%S*) ?(%d*) ?%d*(%*?)')
  epoch, counter, owner, owner_session = tonumber(e), tonumber(c), o, s ~= '' and s or '-'
  since, is_raised = tonumber(at) or now, mark == '*'
end
local shown = call('GET', lease)
-- The last grant was to the caller, and was released neither by it nor on its behalf.
local was_mine = shown and owner == attempt and (shown == value or shown == before)
if shown and owner_session ~= '-' and what ~= 'release' and call('EXISTS', owner_session) == 0 then
  shown = false
end
local is_mine = shown and was_mine
local entry, old_entry  -- the caller's entries in the queue
if channel ~= '-' then
  local rest = ' ' .. channel .. ' ' .. ttl .. ' ' .. value
  local name, ms = match(session, '^(.*@)(%d+)$')
  entry = attempt .. ' ' .. (name and format('%s%d', name, now / 1000 + ms) or session) .. rest
  if old ~= '-' and old ~= session then old_entry = attempt .. ' ' .. old .. rest end
end

if what == 'release' then
  -- Even the holder may have left an entry behind, under a session that was replaced.
  if entry then call('LREM', queue, 0, entry) end
  if old_entry then call('LREM', queue, 0, old_entry) end
  -- A caller that did not hear of its last place does not know the time in that entry.
  if entry and not is_mine and match(session, '@') then
    local all, start = call('LRANGE', queue, 0, -1), attempt .. ' '
    for i = 1, #all do
      if string.sub(all[i], 1, #start) == start then call('LREM', queue, 0, all[i]) end
    end
  end
end
if what ~= 'acquire' and not is_mine then return {0, 0, 0, now, shown or ''} end

-- Chooses the holder from here on. That is the caller if it renews, or repeats its acquisition. If
-- the lease is free or being released, it is the first in line that is still alive, or else the
-- caller.
local holder, holder_session, holder_ttl, holder_value, news
if is_mine and what ~= 'release' then  -- a renewal, or an acquisition whose first answer was lost
  holder, holder_session, holder_ttl, holder_value = attempt, session, ttl, value
elseif is_mine or not shown then
  since, is_raised = now, true
  local is_found
  repeat
    -- A caller that asks again did not hear of its grant, and its session has ended since: it keeps
    -- its turn.
    local first = not (was_mine and what == 'acquire') and call('LINDEX', queue, 0)
    if not first then
      holder, holder_session, holder_ttl, holder_value = attempt, session, ttl, value
      break
    end
    holder, holder_session, news, holder_ttl, holder_value =
      match(first, '^(%S+) (%S+) (%S+) (%d+) (.*)$')
    if holder == attempt then
      is_found = what ~= 'release'
      holder_session = session  -- the entry may name the previous one
    else
      is_found = lives(holder_session)
    end
    call('LPOP', queue)
  until is_found
  if what == 'release' and not is_found then
    call('DEL', lease)
    -- If the slot begins to move now, claim.lua has only the fence to go by. This comes after the
    -- DEL, which a full server allows.
    if ttl ~= '0' then
      call('SET', fence, format('%d %d %s - %d 0', epoch, counter, attempt, since), 'PX', retention)
    end
    return {1, epoch, counter, now}
  end
end

if holder then
  if holder_ttl ~= '0' then holder_session = '-' end
  -- Redis checks its memory only before the first write of a script, and this write needs none: so
  -- a full server still renews leases.
  if is_mine then call('PEXPIRE', fence, retention) end
  local is_new = is_raised or topology > epoch or holder_session ~= owner_session
  if is_new then
    -- The token grows by itself, with the server's clock (in case a failover or a restart lost this
    -- record), and with the topology's epoch (in case the next server's clock is behind).
    epoch = math.max(epoch, topology)
    counter = math.max(counter + 1, now)
    owner, owner_session = holder, holder_session
  end
  if holder_ttl ~= '0' then
    call('SET', fence, format('%d %d %s - %d %d', epoch, counter, owner, since,
                              now / 1000 + holder_ttl), 'PX', retention)
  elseif is_new then
    call('SET', fence, format('%d %d %s %s %d', epoch, counter, owner, owner_session, since), 'PX',
         retention)
  end
  call('SET', lease, holder_value, 'PX', holder_ttl == '0' and retention or holder_ttl)
  if holder ~= attempt then
    -- Names the session that keeps the lease: a process that is in line twice may have entered an
    -- older one.
    call('SPUBLISH', news, format('%s %d %d %d@%s', holder, epoch, counter, now, holder_session))
  end
  if what == 'release' or what == 'acquire' and holder == attempt then
    return {1, epoch, counter, now}
  end
  shown = holder_value
end

if holder == attempt then entry = nil end
local place = entry and call('LPOS', queue, entry)
if entry and old_entry and not place then
  place = call('LPOS', queue, old_entry)
  if place then call('LSET', queue, place, entry) end
end
-- Removes dead waiters: those at the head of the line, and some behind it.
local first = call('LINDEX', queue, 0)
for _ = 1, 100 do
  if not first or lives(match(first, '^%S+ (%S+)')) then break end
  call('LPOP', queue)
  first = call('LINDEX', queue, 0)
end
if first then
  local from = now % call('LLEN', queue)
  local some = call('LRANGE', queue, from, from + 15)
  for i = 1, #some do
    if not lives(match(some[i], '^%S+ (%S+)')) then call('LREM', queue, 1, some[i]) end
  end
end
if holder == attempt then return {1, epoch, counter, now} end

if entry and not place then
  place = -1
  if call('LLEN', queue) < 10000 then
    place = call('RPUSH', queue, entry) - 1
    call('PEXPIRE', queue, retention)
  end
end
local ends_with = owner_session ~= '-' and owner_session or lease
return {0, call('PTTL', ends_with), place or 0, now, shown}
