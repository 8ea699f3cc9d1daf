-- Appends a batch to the log, sets its values and publishes it; all of that or nothing.
-- KEYS  1 log  2 head  3… one key per change
-- ARGV  1 epoch  2 maximum number of log entries  3 writer  4 number of the writer's batch and the
--       attempt: "7", "7.2", "7.3"
--       5 the changes, packed  6 channel of the log  7 channel of older peers, or ''
--       then for each change: where its value begins in 5, where it ends ('', '' for a deletion),
--       and the notification for older peers
-- Returns {id, attempt, stamp of the previous entry}. If this batch or a later one of the writer
-- was written already, does nothing and returns {id, attempt} of that one. XADD refuses an epoch
-- older than the log's.
local past = redis.call('HMGET', KEYS[2], 'tail', ARGV[3])
if past[2] then
  local attempt, number, id = string.match(past[2], '^((%d+)%S*) (%S+)$')
  if tonumber(number) >= tonumber(string.match(ARGV[4], '^%d+')) then return {id, attempt} end
end
local stamp = ARGV[3] .. ':' .. ARGV[4]
local before, born = '-', stamp
if past[1] then before, born = string.match(past[1], '^%S+ (%S+) ?(%S*)$') end
local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], ARGV[1] .. '-*',
                      'p', before, 's', stamp, 'b', ARGV[5])
if not past[2] and redis.call('HLEN', KEYS[2]) > 1000 then
  -- A writer is remembered while its last batch is in the log. Each epoch counts its own sequence.
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1][1]
  local oldest_epoch, oldest_sequence = string.match(oldest, '^(%d+)-(%d+)$')
  oldest_epoch, oldest_sequence = tonumber(oldest_epoch), tonumber(oldest_sequence)
  local writers = redis.call('HGETALL', KEYS[2])
  for i = 1, #writers, 2 do
    local epoch, sequence = string.match(writers[i + 1], '^[%d.]+ (%d+)-(%d+)$')
    epoch, sequence = tonumber(epoch), tonumber(sequence)
    if epoch and (epoch < oldest_epoch or
                  (epoch == oldest_epoch and sequence < oldest_sequence)) then
      redis.call('HDEL', KEYS[2], writers[i])
    end
  end
end
redis.call('HSET', KEYS[2], 'tail', id .. ' ' .. stamp .. ' ' .. born, ARGV[3], ARGV[4] .. ' ' .. id)
local at = 8
for i = 3, #KEYS do
  if ARGV[at] == '' then
    redis.call('DEL', KEYS[i])
  else
    redis.call('SET', KEYS[i], string.sub(ARGV[5], ARGV[at], ARGV[at + 1]))
  end
  at = at + 3
end
redis.call('SPUBLISH', ARGV[6], id .. ' ' .. before .. ' ' .. stamp .. ' ' .. ARGV[5])
if ARGV[7] ~= '' then
  for i = 10, #ARGV, 3 do redis.call('PUBLISH', ARGV[7], ARGV[i]) end
end
return {id, ARGV[4], before}
