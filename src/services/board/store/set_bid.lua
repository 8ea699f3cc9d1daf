-- Sets the bid of a role, and tells it unless it was so before.
-- KEYS  1 bids of the claim
-- ARGV  1 role  2 bid
-- Returns 1 when it was set, 0 when it was so before.
if call('HGET', key[1], arg[1]) == arg[2] then return 0 end
call('HSET', key[1], arg[1], arg[2])
announce()
return 1
