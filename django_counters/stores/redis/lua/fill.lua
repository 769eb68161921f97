-- Fill in totals that were read in the database under a lease.
--
-- KEYS   open, base, ring
-- ARGV   a new generation, the lease, then counter, total and time (milliseconds) of each
-- Output how many were filled in: none where something was sealed or flushed since the lease

local slot = opened(1, ARGV[1])
local base = redis.call('HMGET', slot.base, '\0t', '\0v')
if base[1] ~= slot.timeline or base[2] ~= ARGV[2] then return 0 end
if redis.call('HLEN', slot.base) > LARGEST_BASE then
  redis.call('UNLINK', slot.base)
  return 0
end
local filled = 0
for at = 3, #ARGV, 3 do
  local asked = redis.call('HGET', slot.base, '\0m' .. ARGV[at])
  if not asked or tonumber(asked) <= tonumber(ARGV[at + 2]) then
    redis.call('HSET', slot.base, ARGV[at], ARGV[at + 1], '\0m' .. ARGV[at], ARGV[at + 2])
    filled = filled + 1
  end
end
return filled
