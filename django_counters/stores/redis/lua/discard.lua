-- Take away what waits for counters whose records are deleted, in generations that are sealed, too;
-- then do what `forget` does, which stands after it.
--
-- KEYS, ARGV and output are those of `forget`.

-- The second key has the known totals.
for place = 1, #KEYS do
  if place ~= 2 then redis.call('HDEL', KEYS[place], unpack(ARGV)) end
end

