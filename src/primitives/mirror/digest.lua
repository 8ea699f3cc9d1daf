-- Computes one hash that differs if any of the values does.
-- KEYS  1… values
-- Returns the SHA-1 of 'length:value' of each value, or '-' for one that does not exist.
local values = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  values[i] = values[i] and (#values[i] .. ':' .. values[i]) or '-'
end
return redis.sha1hex(table.concat(values))
