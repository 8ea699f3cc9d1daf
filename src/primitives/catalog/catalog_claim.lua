-- Follows catalog.lua. claim: 5 "anew": under an epoch of this topology, if the row's is older.
-- Returns {1, epoch, counter}; {0, its owner, or empty if it has to wait}; {-1} if there is no such
-- row; {-2} if the session's own lease has ended.
if not lasts(lease) then return {-2} end
if not record then return {-1} end
local _, owner, its_epoch, counter, wait_until, _, _, rest = match(record, row_pattern)
if owner == session and not (ARGV[5] == 'anew' and its_epoch ~= epoch) then
  return {1, its_epoch, counter}
end
if owner ~= '' and owner ~= session and lives(owner) then return {0, owner} end
if owner == '' and tonumber(wait_until) > now_ms then return {0, ''} end
counter = counter_after(counter)
put(key, 'claimed', session, epoch, counter, '0', '', '', rest)
tell(key)
return {1, epoch, counter}
