-- The beginning of every script of a catalog: where things are, the time, and how a row is stored.
-- KEYS  1 rows     hash: key -> "state owner epoch counter wait_until_ms from order", then "rank
--                  attempts", the error, the spec and the note, a NUL before each. from: the
--                  "epoch-counter" under which it was handed to its owner, or empty. order: of its
--                  owner's last write.
--                  A field that begins with a space is not a row. " head" -> "epoch removed": the
--                  highest epoch of the topology, and the highest counter of a removed row.
--                  " list" -> "birth_us floor placed": of this history; how many changes have left
--                  the list, and how many are noted in places. " session" -> the time in us when
--                  its lease ends
--       2 changes  list: the key of a row per change of it; also the channel that announces changes
--       3 nodes    hash: session -> "ttl_ms info"
--       4 places   sorted set: keys by where the row stands (catalog_places.lua)
-- ARGV  1 epoch of the topology, as the caller knows it  2 what to do  3 with which row, or empty
--       4 for which session, or empty  5… arguments
local call, match, sub, format = redis.call, string.match, string.sub, string.format
local rows, changes, nodes, places = unpack(KEYS)
local topology, what, key, session = unpack(ARGV)
local most_changes = 60000

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

-- Reads everything that a claim depends on at once.
local head, record, lease = unpack(call('HMGET', rows, ' head', key, ' ' .. session))
if sub(key, 1, 1) == ' ' then record = false end
local epoch, removed = match(head or '-1 0', '^(%S+) (%d+)$')

local function keep_list(birth, floor, placed)
  call('HSET', rows, ' list', format('%s %.0f %.0f', birth, floor, placed))
end
if not head then
  call('DEL', changes, places)
  keep_list(format('%.0f', now), 0, 0)
end
if epoch ~= topology and tonumber(topology) > tonumber(epoch) then
  epoch = topology
  call('HSET', rows, ' head', epoch .. ' ' .. removed)
end

local function lasts(lease) return lease and tonumber(lease) > now end
local function lives(session) return lasts(call('HGET', rows, ' ' .. session)) end

-- State, owner, epoch, counter, wait_until, from, order, and the part that does not change with the
-- owner.
local row_pattern = '^(%l+) (%S*) (%d+) (%d+) (%d+) ([%d-]*) (%d*)(%z.*)$'
-- Rank, attempts, error, spec, note.
local rest_pattern = '^%z(-?%d+) (%d+)%z([^%z]*)%z([^%z]*)%z(.*)$'
local function rest_of(rank, attempts, problem, spec, note)
  return '\0' .. rank .. ' ' .. attempts .. '\0' .. problem .. '\0' .. spec .. '\0' .. note
end

-- The counter of the next owner. Never behind the clock, so what a server forgot is not granted
-- again.
local function counter_after(counter)
  return format('%.0f', math.max(counter + 1, removed + 1, now))
end

local function put(key, state, owner, epoch, counter, wait_until, from, order, rest)
  call('HSET', rows, key, state .. ' ' .. owner .. ' ' .. epoch .. ' ' .. counter .. ' ' .. wait_until ..
    ' ' .. from .. ' ' .. order .. rest)
end

local function read_list()
  local birth, floor, placed = match(call('HGET', rows, ' list'), '^(%d+) (%d+) (%d+)$')
  return birth, tonumber(floor), tonumber(placed)
end

local has_told = false
local function tell(key)
  local length = call('RPUSH', changes, key)
  -- A reader that is too far behind reads everything.
  if length > most_changes then
    local birth, floor, placed = read_list()
    local spare = math.min(math.floor(length / 4), placed - floor)
    if spare > 0 then
      call('LTRIM', changes, spare, -1)
      keep_list(birth, floor + spare, placed)
    end
  end
  if not has_told then call('SPUBLISH', changes, '') end
  has_told = true
end
