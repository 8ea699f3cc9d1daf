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
local lease, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local what, attempt, value, ttl, session = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local topology, retention, channel = tonumber(ARGV[6]), ARGV[7], ARGV[8]
local before, old = ARGV[9], ARGV[10]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local epoch, counter, owner, owner_session, since, is_raised = 0, 0, '', '-', now, false
local record = redis.call('GET', fence)
if record then
  local e, c, o, s, at, mark = string.match(record, '^(%d+) (%d+) ?(%S*) ?(%S*) ?(%d*)(%*?)')
  epoch, counter, owner, owner_session = tonumber(e), tonumber(c), o, s ~= '' and s or '-'
  since, is_raised = tonumber(at) or now, mark == '*'
end
local shown = redis.call('GET', lease)
local is_mine = shown and owner == attempt and (shown == value or shown == before)

-- The token grows by itself, by the server's clock (should this record be lost with a failover or
-- a restart), and by the topology's epoch (should the clock of the next server be behind).
local token
local function write_fence()
  epoch = math.max(epoch, topology)
  counter = math.max(counter + 1, now)
  token = string.format('%d %d ', epoch, counter)
  redis.call('SET', fence, string.format('%s%s %s %d', token, owner, owner_session, since), 'PX',
             retention)
end

local granted = false  -- to the caller, just now
local function grant(to, to_session, ttl_ms, to_value)
  owner, owner_session, shown, since, granted = to, to_session, to_value, now, to == attempt
  write_fence()
  redis.call('SET', lease, to_value, 'PX', ttl_ms == '0' and retention or ttl_ms)
end

-- Hands a free lease to the first in line who still lives; says whether there was one.
local function hand_over()
  while true do
    local entry = redis.call('LPOP', queue)
    if not entry then return false end
    local a, s, news, t, v = string.match(entry, '^(%S+) (%S+) (%S+) (%d+) (.*)$')
    if a == attempt then s = session end  -- the entry may be of the one before
    if redis.call('EXISTS', s) == 1 then
      grant(a, t == '0' and s or '-', t, v)
      if a ~= attempt then
        redis.call('SPUBLISH', news, a .. ' ' .. token .. string.format('%d', now))
      end
      return true
    end
  end
end

local function entry_of(s)
  return attempt .. ' ' .. s .. ' ' .. channel .. ' ' .. ttl .. ' ' .. value
end

if what == 'release' then
  if channel ~= '-' then  -- even of the holder an entry may be left, of a session that was replaced
    redis.call('LREM', queue, 0, entry_of(session))
    if old ~= '-' then redis.call('LREM', queue, 0, entry_of(old)) end
  end
  if is_mine then
    if not hand_over() then redis.call('DEL', lease) end
    return {1, epoch, counter, now}
  end
  return {0, 0, 0, now, ''}
end

if shown and owner_session ~= '-' and redis.call('EXISTS', owner_session) == 0 then
  shown, is_mine = false, false
end
if is_mine then  -- a renewal, or an acquisition whose first answer was lost
  local kept_by = ttl == '0' and session or '-'
  if topology > epoch or kept_by ~= owner_session or is_raised then
    owner_session = kept_by
    write_fence()
  else
    redis.call('PEXPIRE', fence, retention)
  end
  redis.call('SET', lease, value, 'PX', ttl == '0' and retention or ttl)
  return {1, epoch, counter, now}
end
if what == 'renew' then return {0, 0, 0, now, shown or ''} end

if not shown and not hand_over() then
  grant(attempt, ttl == '0' and session or '-', ttl, value)
end
if granted then return {1, epoch, counter, now} end

local place = 0
if channel ~= '-' then
  local entry = entry_of(session)
  place = redis.call('LPOS', queue, entry)
  if not place and old ~= '-' then
    place = redis.call('LPOS', queue, entry_of(old))
    if place then redis.call('LSET', queue, place, entry) end
  end
  if not place then
    place = redis.call('RPUSH', queue, entry) - 1
    redis.call('PEXPIRE', queue, retention)
  end
end
local rest = redis.call('PTTL', owner_session ~= '-' and owner_session or lease)
return {0, rest, place, now, shown}
