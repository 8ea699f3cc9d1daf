-- Puts artefacts behind the other children of their sources, unless they are there.
-- KEYS  children of a source, for each pair of a source and an artefact
-- ARGV  the artefacts, in the same order
for i, children in ipairs(KEYS) do
  local last = redis.call('ZREVRANGE', children, 0, 0, 'WITHSCORES')[2] or 0
  redis.call('ZADD', children, 'NX', last + 1, ARGV[i])
end
