-- Behind catalog.lua; what the owner of a row does with it.
-- ARGV  4 session  5 key  6 epoch  7 counter
--       write: 8 state  9 its number among the writes of this owner  10 note, if there is one
--       release: 8 error  9 wait_ms  10 note, if there is one
--       hand_over: 8 the session of the next owner  9 "anew", as with a claim
-- Returns {1}, or {1, epoch, counter} of the next owner; {0}: the row is not the caller's, or no
-- longer; {-1}: the lease of the next owner has ended.
local session, key = ARGV[4], ARGV[5]
local record = call('HGET', rows, key)
if not record then return {0} end
local row = row_of(record)
local is_same_epoch = row.epoch == ARGV[6] and row.counter == ARGV[7]
-- The answer to an earlier try was lost.
if what == 'release' and is_same_epoch and row.owner == '' then return {1} end
local from = ARGV[6] .. '-' .. ARGV[7]
if what == 'hand_over' and row.owner == ARGV[8] and row.from == from then
  if ARGV[9] == 'anew' and tonumber(row.epoch) < epoch then
    give(key, row, row.owner)
    row.from = from
    keep(key, row)
    keep_head()
  end
  return {1, row.epoch, row.counter}
end
if row.owner ~= session or not is_same_epoch or not lives(session) then return {0} end

if what == 'write' then
  -- It was done before, or comes late: then it is as if it had been done before the newer one.
  if tonumber(ARGV[9]) <= (tonumber(row.order) or 0) then return {1} end
  local note = ARGV[10] or row.note
  local is_news = row.state ~= ARGV[8] or row.note ~= note
  row.state, row.note, row.order = ARGV[8], note, ARGV[9]
  if not is_news then
    put(key, row)
    return {1}
  end
  if row.state == 'ready' then row.attempts, row.error = '0', '' end
  keep(key, row)
  keep_head()
  return {1}
end

if what == 'hand_over' then
  if not lives(ARGV[8]) then return {-1} end
  give(key, row, ARGV[8])
  row.state, row.from = 'ready', from
  keep(key, row)
  keep_head()
  return {1, row.epoch, row.counter}
end

call('ZREM', owned, session .. ' ' .. key)
row.owner, row.state, row.note = '', 'free', ARGV[10] or row.note
row.wait_until = format('%.0f', tonumber(ARGV[9]) > 0 and now_ms + ARGV[9] or 0)
if ARGV[8] ~= '' then
  row.state, row.error, row.attempts = 'failed', ARGV[8], format('%d', row.attempts + 1)
end
keep(key, row)
offer(key, row)
keep_head()
return {1}
