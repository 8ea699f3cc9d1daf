-- Takes the name of an instance, looks at the workspaces of the others and enters the instance in
-- the list; all of it or nothing. What the lease of the name needs comes first: see lease.lua.
-- KEYS  4 list of instances: name -> JSON  5 list of boards: the same, of the last run of each
-- ARGV  11 name  12 workspace  13 the entry, JSON  14 1: no matter who else has the workspace
--       15 and 16 what stands before and behind a name in the key of its lock
-- Returns what lease() does, or the error WORKSPACE with the name of who has it. Entries of instances
-- that are no more are removed; their boards stay, and so they stay in the list of those.
local name, workspace, entry, forced = ARGV[11], ARGV[12], ARGV[13], ARGV[14] == '1'

-- A name that is taken is the first thing to tell. If it is the caller's, this ran before.
local list = redis.call('EXISTS', KEYS[1]) == 0 and redis.call('HGETALL', KEYS[4]) or {}
for i = 1, #list, 2 do
  if list[i] ~= name then
    if redis.call('EXISTS', ARGV[15] .. list[i] .. ARGV[16]) == 0 then
      redis.call('HSETNX', KEYS[5], list[i], list[i + 1])  -- an older Warren did not
      redis.call('HDEL', KEYS[4], list[i])
    elseif not forced then
      local is_json, other = pcall(cjson.decode, list[i + 1])
      if is_json and type(other) == 'table' and other.workspace_path == workspace then
        return redis.error_reply('WORKSPACE ' .. list[i])
      end
    end
  end
end

local answer = lease(KEYS, ARGV)
if answer[1] == 1 then
  redis.call('HSET', KEYS[4], name, entry)
  redis.call('HSET', KEYS[5], name, entry)
end
return answer
