-- Begins every script of a catalog: where things are, what time it is, and how a row is kept.
-- KEYS  1 head     "birth_us epoch change counter floor": of this history; the last change and the
--                  last counter of an owner; `gone` is complete for changes behind floor
--       2 rows     hash: key -> "state owner epoch counter rank attempts wait_until_ms from order", then
--                  the error, the spec and the note, a NUL before each; from: the "epoch-counter"
--                  under which it was handed to its owner, or empty; order: of its owner's last write
--       3 nodes    hash: session -> "ttl_ms info"
--       4 ends     sorted set: session by the time in us at which its lease ends
--       5 owned    sorted set, all of score 0: "session key", one for each row with an owner
--       6 offered  sorted set: keys of rows without an owner, by -rank
--       7 waiting  sorted set: keys of rows without an owner that are to wait, by until when in ms
--       8 changed  sorted set: keys by the number of their last change
--       9 gone     sorted set: keys that were removed, likewise
-- ARGV  1 epoch of the topology, as the caller knows it  2 channel for the number of a change
--       3 what to do  4… with what
local call, match, format = redis.call, string.match, string.format
local head, rows, nodes, ends, owned, offered, waiting, changed, gone = unpack(KEYS)
local what = ARGV[3]

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

local record = call('GET', head)
if not record then
  -- A new history, which goes on counting where somebody lost the old one's head.
  local last = 0
  for _, set in ipairs({changed, gone}) do
    last = math.max(last, call('ZRANGE', set, -1, -1, 'WITHSCORES')[2] or 0)
  end
  record = format('%.0f 0 %.0f 0 %.0f', now, last, last)
end
local birth, epoch, change, counter, floor = match(record, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
epoch, change, counter, floor = tonumber(epoch), tonumber(change), tonumber(counter), tonumber(floor)
local topology = tonumber(ARGV[1])
local is_new = topology > epoch
if is_new then epoch = topology end
local change_before = change

local function keep_head()
  call('SET', head, format('%s %.0f %.0f %.0f %.0f', birth, epoch, change, counter, floor))
  if change > change_before then call('SPUBLISH', ARGV[2], format('%.0f', change)) end
end

local function lives(session)
  local till = call('ZSCORE', ends, session)
  return till and tonumber(till) > now
end

local function row_of(record)
  local row = {}
  row.state, row.owner, row.epoch, row.counter, row.rank, row.attempts, row.wait_until, row.from,
    row.order, row.error, row.spec, row.note = match(record,
    '^(%l+) (%S*) (%d+) (%d+) (-?%d+) (%d+) (%d+) ?([%d-]*) ?(%d*)%z([^%z]*)%z([^%z]*)%z(.*)$')
  return row
end

local function put(key, row)
  call('HSET', rows, key, format('%s %s %s %s %s %s %s %s %s', row.state, row.owner, row.epoch,
    row.counter, row.rank, row.attempts, row.wait_until, row.from, row.order) .. '\0' .. row.error .. '\0' .. row.spec .. '\0' .. row.note)
end

local function keep(key, row)
  change = change + 1
  put(key, row)
  call('ZADD', changed, change, key)
end

-- Where a row without an owner stands.
local function offer(key, row)
  if tonumber(row.wait_until) > now_ms then
    call('ZREM', offered, key)
    call('ZADD', waiting, row.wait_until, key)
  else
    call('ZREM', waiting, key)
    call('ZADD', offered, -tonumber(row.rank), key)
  end
end

local function give(key, row, session)
  if row.owner ~= '' then
    call('ZREM', owned, row.owner .. ' ' .. key)
  else
    call('ZREM', offered, key)
    call('ZREM', waiting, key)
  end
  -- Never behind the clock: what a server forgot is not granted again.
  counter = math.max(counter + 1, now)
  row.owner, row.epoch, row.counter = session, format('%.0f', epoch), format('%.0f', counter)
  row.from, row.order = '', ''
  call('ZADD', owned, 0, session .. ' ' .. key)
end
