-- One thing that is created once: what exists of it, which process works on it, and which may
-- begin.
-- KEYS  1 state: the hash that decides. phase: busy, left, failed or none; epoch and counter: the
--         token of the last step; owner: the attempt that took it; status: of that step, or of the
--         record; until: when a busy owner counts as dead; was: status of the record from which the
--         step began; record: its bytes, also while busy; ends: when the record, or the memory of a
--         failure, ends; error, retry: of the last step, and until when that is the answer; left,
--         note: of the last step that did not finish
--       2 lock  3 resource: what others see. Left out while a slot moves: others then see what they
--         saw before
-- ARGV  1 what  2 channel  3 name  4 attempt  5 epoch of the topology  6, 7 token; to change: the
--         wanted version; to ensure: the creation that was waited for, or 0 0
--       8 text for the resource key, if that is to have a text; empty: leave it alone
--       9 ttl_ms of that  10 retention_ms of what is known of tokens
--       take: 11 status  12 alive_ms  13 lock_ttl_ms  14 ensure or change  15 from: " a b ", or
--         empty  16 1: also from a live owner
--       renew: 11 status  12 alive_ms  13 lock_ttl_ms  14 note, with a + in front, or empty
--       settle: 11 left, failed or back  12 status: of the record, or of the step  13 bytes
--         14 error  15 retry_ms  16 record_ttl_ms
--       replace: 11 status  12 bytes
--       refresh, get: nothing more
-- Returns {1 if done, now_ms, then the same as on the channel: epoch, counter, phase, status,
-- owner, until, was, record, ends, error, retry, left, note; then, of take: what another program
-- has in the resource key, and for how many more ms it has the lock, or empty}.
local call, max = redis.call, math.max
local state, lock, resource = unpack(KEYS)
local what, channel, name, attempt, topology, e, c, text, text_ttl, retention = unpack(ARGV)
local function arg(i) return ARGV[10 + i] end
e, c, topology = tonumber(e), tonumber(c), tonumber(topology)
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

local names = {'epoch', 'counter', 'phase', 'status', 'owner', 'until', 'was', 'record', 'ends', 'error',
               'retry', 'left', 'note'}
local had, is = call('HMGET', state, unpack(names)), {}
for i = 1, #names do is[names[i]] = had[i] or '' end
is.epoch, is.counter = tonumber(is.epoch) or 0, tonumber(is.counter) or 0
if is.phase == '' then is.phase = 'none' end
local function number(value) return string.format('%.0f', value) end
local function token() return number(is.epoch) .. '-' .. number(is.counter) end
local lock_value = is.owner .. ' ' .. token()

local function forget_record() is.status, is.was, is.record, is.ends = '', '', '', '' end
if (is.phase == 'left' or is.phase == 'failed') and (tonumber(is.ends) or 0) <= now then
  is.phase, is.error, is.retry = 'none', '', ''
  forget_record()
end
local is_alive = is.phase == 'busy' and (tonumber(is['until']) or 0) > now
local is_mine = is.owner == attempt
local is_older, is_newer = e < is.epoch or e == is.epoch and c < is.counter,
                           e > is.epoch or e == is.epoch and c > is.counter

local function view(done)
  local reply = {done, number(now)}
  for i = 1, #names do
    local value = is[names[i]]
    reply[#reply + 1] = type(value) == 'number' and number(value) or value
  end
  return reply
end

-- Writes what changed, and for how long it matters. Redis checks its memory only before the first
-- write of a script, and this one needs none.
local function keep(ttl)
  call('PEXPIRE', state, number(max(retention, ttl)))
  local words, gone = {}, {}
  for i = 1, #names do
    local value = is[names[i]]
    if type(value) == 'number' then value = number(value) end
    if value == '' then
      if had[i] then gone[#gone + 1] = names[i] end
    elseif value ~= had[i] then
      words[#words + 1] = names[i]
      words[#words + 1] = value
    end
  end
  if #words > 0 then call('HSET', state, unpack(words)) end
  if #gone > 0 then call('HDEL', state, unpack(gone)) end
  if not had[1] then call('PEXPIRE', state, number(max(retention, ttl))) end
end

-- A message is the name and the view, each item with its length in front.
local function tell()
  local parts, items = {}, view(1)
  items[1] = name
  if #is.record > 8192 then items[10] = '' end
  for i = 1, #items do parts[i] = #items[i] .. ':' .. items[i] end
  call('PUBLISH', channel, table.concat(parts) .. (#is.record > 8192 and '-' or '+'))
end

local function show()
  if not resource or text == '' then return end
  if is.phase == 'none' then
    call('DEL', resource)
  elseif text ~= '-' then
    call('SET', resource, text, 'PX', text_ttl)
  end
end

local function unlock()
  if lock and redis.pcall('GET', lock) == lock_value then call('DEL', lock) end
end

local function next_token()
  is.epoch, is.counter = max(is.epoch, topology), max(is.counter + 1, now_us)
end

if what == 'take' then
  local status, alive, lock_ttl, mode, from, takes_over =
    arg(1), arg(2), arg(3), arg(4), arg(5), arg(6) == '1'
  local may_begin
  if is.phase == 'busy' then
    may_begin = is_mine or not is_alive or takes_over and is.status ~= status
  elseif is_mine then
    may_begin = false  -- an old request, of a step that is over
  elseif mode == 'ensure' then
    -- A caller that waited for a creation does not create what was removed since.
    local is_removed = is.phase == 'none' and c > 0 and is_older and is.left == ''
    may_begin = is.phase == 'none' and not is_removed or
                  is.phase == 'failed' and (tonumber(is.retry) or 0) <= now
  elseif is.phase == 'failed' then
    may_begin = from == '' or string.find(from, ' failed ', 1, true)
  else
    may_begin = is.phase == 'left' and (from == '' or string.find(from, ' ' .. is.status .. ' ', 1, true))
  end
  local is_other_version = mode == 'change' and c > 0 and (is_older or is_newer)
  if is_other_version and not (is.phase == 'busy' and is_mine) then may_begin = false end
  if not may_begin then
    if is.phase == 'busy' then is.record = '' end  -- a waiting caller does not need it
    return view(0)
  end

  -- Another program works on it; that program announces nothing.
  local shown = lock and redis.pcall('GET', lock)
  if shown and shown ~= lock_value and not takes_over then
    local reply = view(0)
    reply[16], reply[17] = '', number(call('PTTL', lock))
    return reply
  end
  local foreign = ''
  if is.phase == 'none' and resource then
    foreign = redis.pcall('GET', resource) or ''
    if type(foreign) ~= 'string' then foreign = '?' end
  end
  if is.phase == 'busy' and is_mine then
    if topology > is.epoch then next_token() end
  else
    if is.phase == 'busy' then is.left = is.status .. ' ' .. token() end
    if is.phase == 'left' then is.was = is.status end
    if is.phase == 'none' or is.phase == 'failed' then forget_record() end
    is.phase, is.status, is.owner, is.error, is.retry, is.ends = 'busy', status, attempt, '', '', ''
    next_token()
  end
  is['until'] = now + alive
  keep(0)
  if lock then call('SET', lock, attempt .. ' ' .. token(), 'PX', lock_ttl) end
  show()
  tell()
  local reply = view(1)
  reply[16], reply[17] = string.sub(foreign, 1, 16384), ''
  return reply
end

if what == 'renew' then
  local status, alive, lock_ttl, note = arg(1), arg(2), arg(3), arg(4)
  if is_older or not is_newer and not (is.phase == 'busy' and is_mine) then return view(0) end
  if is_newer then
    -- What we were granted was lost, with a failover or with all data. No other process was granted
    -- it since.
    if is.phase == 'busy' then is.left = is.status .. ' ' .. token() end
    if is.phase == 'left' then is.was = is.status end
    if is.phase == 'none' or is.phase == 'failed' then forget_record() end
    is.epoch, is.counter, is.phase, is.status, is.owner, is.error, is.retry, is.ends =
      e, c, 'busy', status, attempt, '', '', ''
  end
  is['until'] = now + alive
  if note ~= '' then is.note = string.sub(note, 2) end
  keep(0)
  if lock then
    local mine = attempt .. ' ' .. token()
    if not call('SET', lock, mine, 'NX', 'PX', lock_ttl) and redis.pcall('GET', lock) == mine then
      call('PEXPIRE', lock, lock_ttl)
    end
  end
  if resource and text ~= '' then
    if note ~= '' or is_newer then show() else call('SET', resource, text, 'NX', 'PX', text_ttl) end
  end
  if is_newer then tell() end
  is.record = ''  -- the worker has it
  return view(1)
end

if what == 'settle' then
  local how, status, bytes, err, retry, ttl = arg(1), arg(2), arg(3), arg(4), arg(5), arg(6)
  if is_older then return view(0) end
  if not is_newer and is.phase ~= 'busy' then return view(is_mine and 1 or 0) end
  if is_newer then
    if is.phase == 'left' then is.was = is.status end
    if is.phase == 'none' or is.phase == 'failed' then forget_record() end
    is.epoch, is.counter, is.owner = e, c, attempt
  end
  is['until'], is.error, is.retry = '', '', ''
  if how == 'left' then
    forget_record()
    is.left, is.note = '', ''
    is.phase = status == '' and 'none' or 'left'
    if status ~= '' then is.status, is.record, is.ends = status, bytes, now + ttl end
  else
    is.left = status .. ' ' .. token()
    if how == 'failed' then is.error, is.retry = err, now + retry end
    if is.was ~= '' then
      is.phase, is.status, is.was, is.ends = 'left', is.was, '', now + ttl
    else
      forget_record()
      is.phase = how == 'failed' and 'failed' or 'none'
      if how == 'failed' then is.ends = now + max(text_ttl, retry) end
    end
  end
  keep(is.ends ~= '' and is.ends - now or 0)
  unlock()
  show()
  tell()
  is.record = ''
  return view(1)
end

if what == 'replace' then
  if is_mine and is.phase ~= 'busy' then return view(1) end
  if is.phase ~= 'left' or is_older or is_newer then return view(0) end
  local status, bytes = arg(1), arg(2)
  forget_record()
  is.phase = status == '' and 'none' or 'left'
  if status ~= '' then is.status, is.record, is.ends = status, bytes, now + text_ttl end
  is.owner, is.error, is.retry = attempt, '', ''
  if status == '' then is.left, is.note = '', '' end
  next_token()
  keep(text_ttl)
  show()
  tell()
  return view(1)
end

if what == 'refresh' then
  if is.phase ~= 'left' or is_older or is_newer then return view(0) end
  is.ends = now + text_ttl
  keep(text_ttl)
  show()
  is.record = ''  -- the caller has it
  return view(1)
end
return view(is.phase == 'none' and 0 or 1)
