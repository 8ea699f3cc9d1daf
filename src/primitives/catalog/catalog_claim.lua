-- Behind catalog.lua. claim: 5 "anew": under an epoch of this topology, if it is of an older one.
-- Returns {1, epoch, counter}; {0, its owner, or empty: it is to wait}; {-1}: there is no such row;
-- {-2}: the session's own lease has ended.
if not lasts(lease) then return {-2} end
if not record then return {-1} end
local row = row_of(record)
local is_mine = row.owner == session and not (ARGV[5] == 'anew' and row.epoch ~= epoch)
if not is_mine then
  if row.owner ~= '' and row.owner ~= session and lives(row.owner) then return {0, row.owner} end
  if row.owner == '' and tonumber(row.wait_until) > now_ms then return {0, ''} end
  give(row, session)
  row.state, row.wait_until = 'claimed', '0'
  keep(key, row)
end
return {1, row.epoch, row.counter}
