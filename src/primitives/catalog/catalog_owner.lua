-- Follows catalog.lua; what the owner of a row does with it.
-- ARGV  5 epoch  6 counter
--       write: 7 state  8 number of this write among the owner's  9 note, if there is one
--       release: 7 error  8 wait_ms  9 note, if there is one
--       hand_over: 7 session of the next owner  8 "anew", as with a claim
-- Returns {1}, or {1, epoch, counter} of the next owner; {0} if the row is not, or no longer, the
-- caller's; {-1} if the lease of the next owner has ended.
if not record then return {0} end
local state, owner, its_epoch, counter, wait_until, from, order, rest = match(record, row_pattern)
local is_same_epoch = its_epoch == ARGV[5] and counter == ARGV[6]
-- The answer to an earlier attempt was lost.
if what == 'release' and is_same_epoch and owner == '' then return {1} end
local this = ARGV[5] .. '-' .. ARGV[6]
local function hand_over(state)
  counter = counter_after(counter)
  put(key, state, ARGV[7], epoch, counter, '0', this, '', rest)
  tell(key)
  return {1, epoch, counter}
end
if what == 'hand_over' and owner == ARGV[7] and from == this then
  if ARGV[8] == 'anew' and its_epoch ~= epoch then return hand_over(state) end
  return {1, its_epoch, counter}
end
if owner ~= session or not is_same_epoch or not lasts(lease) then return {0} end

if what == 'hand_over' then
  if not lives(ARGV[7]) then return {-1} end
  return hand_over('ready')
end

local rank, attempts, problem, spec, old_note = match(rest, rest_pattern)
local note = ARGV[9] or old_note
if what == 'write' then
  -- It was done before, or comes late: then it counts as done before the newer one.
  if tonumber(ARGV[8]) <= (tonumber(order) or 0) then return {1} end
  if ARGV[7] == 'ready' then attempts, problem = '0', '' end
  rest = rest_of(rank, attempts, problem, spec, note)
  put(key, ARGV[7], owner, its_epoch, counter, wait_until, from, ARGV[8], rest)
  if state ~= ARGV[7] or note ~= old_note then tell(key) end
  return {1}
end

state = 'free'
wait_until = format('%.0f', tonumber(ARGV[8]) > 0 and now_ms + ARGV[8] or 0)
if ARGV[7] ~= '' then
  state, problem, attempts = 'failed', ARGV[7], format('%d', attempts + 1)
end
rest = rest_of(rank, attempts, problem, spec, note)
put(key, state, '', its_epoch, counter, wait_until, from, order, rest)
tell(key)
return {1}
