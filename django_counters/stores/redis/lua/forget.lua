-- Forget totals that were changed in another way than by what waits here.
--
-- KEYS   open, base, ring
-- ARGV   counters
-- Output how many of them were known

-- Whoever has asked for a total before must not fill it in any more.
redis.call('HDEL', KEYS[2], '\0v')
local known = 0
for _, counter in ipairs(ARGV) do
  known = known + redis.call('HDEL', KEYS[2], counter)
  redis.call('HDEL', KEYS[2], '\0m' .. counter, '\0a' .. counter)
end
return known
