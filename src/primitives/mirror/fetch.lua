-- Values, and the place in the log at which they were so.
-- KEYS  1 head  2… values
-- Returns {tail, value…}; the tail is 'id stamp born', or nil before the first entry.
return {redis.call('HGET', KEYS[1], 'tail'), unpack(redis.call('MGET', unpack(KEYS, 2)))}
