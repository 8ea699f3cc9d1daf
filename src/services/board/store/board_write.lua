-- Begins every script that writes to a board, behind primitives/lease/fence.lua: is the caller
-- still allowed to, and whom to tell.
-- KEYS  1 fence of the caller's lease: "epoch counter", the newest token, then what is the lease's
-- ARGV  1 epoch, or '' for who writes under no lease  2 counter  3 retention_ms of the fence
--       4 n: how many announcements  then n times: channel, message
-- What follows in KEYS and ARGV are `key` and `arg` to the script. The error FENCED: somebody was
-- granted the lease since, and nothing was written.
local call = redis.call
local announcements = tonumber(ARGV[4])
local key, arg = {unpack(KEYS, 2)}, {unpack(ARGV, 5 + 2 * announcements)}

if ARGV[1] ~= '' then
  local refusal = fenced(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
  if refusal then return refusal end
end

local function announce()
  for i = 1, announcements do call('PUBLISH', ARGV[3 + 2 * i], ARGV[4 + 2 * i]) end
end

local function now_ms()
  local time = call('TIME')
  return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- A key of another type than it should have is an error. A script that failed is not undone, so
-- this comes before the first write.
local function need_sorted_sets(...)
  for _, each in ipairs({...}) do call('ZCARD', each) end
end

