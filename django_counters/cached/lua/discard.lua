-- Take away what waits for counters whose records are deleted, in generations that are sealed, too.
-- This stands behind `forget`, which is done first.
--
-- KEYS, ARGV: those of `forget`
-- Output the generations that wait

local generations = {}
for place = 1, #KEYS do
  -- The second key has the known totals.
  local generation = place ~= 2 and redis.call('HGET', KEYS[place], '\0g')
  if place ~= 2 then redis.call('HDEL', KEYS[place], unpack(ARGV)) end
  if generation then generations[#generations + 1] = generation end
end
return generations
