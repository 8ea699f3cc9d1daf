-- Follows catalog.lua: where rows stand, so that rows on offer are found among any number of
-- others. Each row is in `places` once: without an owner by its rank, the highest first; then
-- waiting rows, by when the wait ends; then owned rows, by session. All of that follows from the
-- row's record. So claiming and writing a row leave `places` alone: it is updated here, from the
-- list of changes.
local most_rank, waiting, owned = 1e15, 2e15, 4e15

-- By the number at the end of a session.
local function place_of(session) return owned + tonumber(sub(session, -12), 16) end

local function place(key)
  local record = call('HGET', rows, key)
  if not record then
    call('ZREM', places, key)
    return
  end
  local _, owner, _, _, wait_until, _, _, rest = match(record, row_pattern)
  if owner ~= '' then
    call('ZADD', places, place_of(owner), key)
  elseif tonumber(wait_until) > now_ms then
    call('ZADD', places, waiting + wait_until, key)
  else
    local rank = match(rest, rest_pattern)
    call('ZADD', places, -tonumber(rank), key)
  end
end

-- Returns whether everything has been noted.
local function note_places(most)
  local birth, floor, placed = read_list()
  local entries = call('LRANGE', changes, placed - floor, placed - floor + most - 1)
  local seen = {}
  for _, key in ipairs(entries) do
    if not seen[key] then place(key) end
    seen[key] = true
  end
  if #entries > 0 then keep_list(birth, floor, placed + #entries) end
  return #entries < most
end
