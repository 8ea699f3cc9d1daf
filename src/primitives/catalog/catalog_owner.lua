-- Behind catalog.lua; what the owner of a row does with it.
-- ARGV  5 epoch  6 counter
--       write: 7 state  8 its number among the writes of this owner  9 note, if there is one
--       release: 7 error  8 wait_ms  9 note, if there is one
--       hand_over: 7 the session of the next owner  8 "anew", as with a claim
-- Returns {1}, or {1, epoch, counter} of the next owner; {0}: the row is not the caller's, or no
-- longer; {-1}: the lease of the next owner has ended.
if not record then return {0} end
local row = row_of(record)
local is_same_epoch = row.epoch == ARGV[5] and row.counter == ARGV[6]
-- The answer to an earlier try was lost.
if what == 'release' and is_same_epoch and row.owner == '' then return {1} end
local from = ARGV[5] .. '-' .. ARGV[6]
if what == 'hand_over' and row.owner == ARGV[7] and row.from == from then
  if ARGV[8] == 'anew' and row.epoch ~= epoch then
    give(row, row.owner)
    row.from = from
    keep(key, row)
  end
  return {1, row.epoch, row.counter}
end
if row.owner ~= session or not is_same_epoch or not lasts(lease) then return {0} end

if what == 'hand_over' then
  if not lives(ARGV[7]) then return {-1} end
  give(row, ARGV[7])
  row.state, row.from = 'ready', from
  keep(key, row)
  return {1, row.epoch, row.counter}
end

local rank, attempts, problem, spec, old_note = details_of(row)
local note = ARGV[9] or old_note
if what == 'write' then
  -- It was done before, or comes late: then it is as if it had been done before the newer one.
  if tonumber(ARGV[8]) <= (tonumber(row.order) or 0) then return {1} end
  local is_news = row.state ~= ARGV[7] or note ~= old_note
  row.state, row.order = ARGV[7], ARGV[8]
  if row.state == 'ready' then attempts, problem = '0', '' end
  set_details(row, rank, attempts, problem, spec, note)
  if is_news then keep(key, row) else put(key, row) end
  return {1}
end

row.owner, row.state = '', 'free'
row.wait_until = format('%.0f', tonumber(ARGV[8]) > 0 and now_ms + ARGV[8] or 0)
if ARGV[7] ~= '' then
  row.state, problem, attempts = 'failed', ARGV[7], format('%d', attempts + 1)
end
set_details(row, rank, attempts, problem, spec, note)
keep(key, row)
return {1}
