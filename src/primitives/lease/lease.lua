-- One lease: who holds it, under which token, and who waits for it.
-- KEYS  1 lease: the value that its holder shows to others, kept only while it is held
--       2 fence: "epoch counter attempt session since_us until_ms": the last grant; outlives the
--         holder. until_ms: of one with a ttl of its own. A "*" behind it: somebody has shown a
--         newer token since
--       3 queue: "attempt session channel ttl_ms value" of each who waits, the first in line first
-- ARGV  1 acquire, renew or release  2 attempt  3 value  4 ttl_ms, or 0: as long as the session
--       5 session, or -; who waits without one: "…@ms", for how long it lives unless it asks again
--       6 epoch of the topology, as the caller knows it  7 retention_ms of the fence
--       8 channel for the grant, or - for who does not wait  9 value before this one
--       10 session before this one, or -; who waits without one: "…@" and the time until when, in ms
-- Returns {1, epoch, counter, now_us} to the holder. To others: {0, ms until the lease ends unless
-- it is renewed or -1, how many are before us in the queue or -1: it is full, now_us, value of the
-- holder}.
local call, match, format = redis.call, string.match, string.format
local lease, fence, queue = unpack(KEYS)
local what, attempt, value, ttl, session, topology, retention, channel, before, old = unpack(ARGV)
topology = tonumber(topology)

local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- Whether whoever waits is still there.
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
-- Granted to the caller last, and given back neither by it nor for it.
local was_mine = shown and owner == attempt and (shown == value or shown == before)
if shown and owner_session ~= '-' and what ~= 'release' and call('EXISTS', owner_session) == 0 then
  shown = false
end
local is_mine = shown and was_mine
local entry, old_entry  -- of the caller in the queue
if channel ~= '-' then
  local rest = ' ' .. channel .. ' ' .. ttl .. ' ' .. value
  local name, ms = match(session, '^(.*@)(%d+)$')
  entry = attempt .. ' ' .. (name and format('%s%d', name, now / 1000 + ms) or session) .. rest
  if old ~= '-' and old ~= session then old_entry = attempt .. ' ' .. old .. rest end
end

if what == 'release' then
  -- Even of the holder an entry may be left, of a session that was replaced.
  if entry then call('LREM', queue, 0, entry) end
  if old_entry then call('LREM', queue, 0, old_entry) end
  -- Who has not heard of its last place does not know until when that counts.
  if entry and not is_mine and match(session, '@') then
    local all, start = call('LRANGE', queue, 0, -1), attempt .. ' '
    for i = 1, #all do
      if string.sub(all[i], 1, #start) == start then call('LREM', queue, 0, all[i]) end
    end
  end
end
if what ~= 'acquire' and not is_mine then return {0, 0, 0, now, shown or ''} end

-- Who has it from here on, when that is the caller again, or when nobody has it now: then the first
-- in line who still lives, or else who asks for it.
local holder, holder_session, holder_ttl, holder_value, news
if is_mine and what ~= 'release' then  -- a renewal, or an acquisition whose first answer was lost
  holder, holder_session, holder_ttl, holder_value = attempt, session, ttl, value
elseif is_mine or not shown then
  since, is_raised = now, true
  local is_found
  repeat
    -- Who asks again has not heard of its grant, and its session ended meanwhile: its turn has not passed.
    local first = not (was_mine and what == 'acquire') and call('LINDEX', queue, 0)
    if not first then
      holder, holder_session, holder_ttl, holder_value = attempt, session, ttl, value
      break
    end
    holder, holder_session, news, holder_ttl, holder_value =
      match(first, '^(%S+) (%S+) (%S+) (%d+) (.*)$')
    if holder == attempt then
      is_found = what ~= 'release'
      holder_session = session  -- the entry may be of the one before
    else
      is_found = lives(holder_session)
    end
    call('LPOP', queue)
  until is_found
  if what == 'release' and not is_found then
    call('DEL', lease)
    -- Should the slot begin to move now, claim.lua has only the fence to go by. After the DEL, which a
    -- server that is full lets through.
    if ttl ~= '0' then
      call('SET', fence, format('%d %d %s - %d 0', epoch, counter, attempt, since), 'PX', retention)
    end
    return {1, epoch, counter, now}
  end
end

if holder then
  if holder_ttl ~= '0' then holder_session = '-' end
  -- Redis looks for memory before the first write of a script only, and this one needs none: so a
  -- server that is full lets a lease be renewed.
  if is_mine then call('PEXPIRE', fence, retention) end
  local is_new = is_raised or topology > epoch or holder_session ~= owner_session
  if is_new then
    -- The token grows by itself, by the server's clock (should this record be lost with a failover
    -- or a restart), and by the topology's epoch (should the clock of the next server be behind).
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
    -- The session that keeps it: of one who stands in line twice, it may be an older one.
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
-- Who died in line does not stay there: the dead at its head go, and some behind it.
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
