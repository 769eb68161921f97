-- Forget totals that were changed in another way than by what waits here.
--
-- KEYS   open, base, ring
-- ARGV   counters
-- Output nothing

-- Whoever has asked for a total before must not fill it in any more.
redis.call('HDEL', KEYS[2], '\0v')
for _, counter in ipairs(ARGV) do
  redis.call('HDEL', KEYS[2], counter, '\0m' .. counter, '\0a' .. counter)
end
