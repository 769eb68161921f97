-- Fill in totals that were read in the database under a lease.
--
-- KEYS   open, base, ring
-- ARGV   a new generation, the lease, then counter, total and time (milliseconds) of each. The total
--        is empty where the caller cannot fill it in: then everybody may ask for it for a while
-- Output how many were filled in: none where something was sealed or flushed since the lease

local slot = opened(1, ARGV[1])
for at = 3, #ARGV, 3 do
  local turn = '\0a' .. ARGV[at]
  if ARGV[at + 1] ~= '' then
    redis.call('HDEL', slot.base, turn)
  elseif redis.call('HEXISTS', slot.base, turn) == 1 then
    redis.call('HSET', slot.base, turn, -milliseconds())
  end
end
local base = redis.call('HMGET', slot.base, '\0t', '\0v')
if base[1] ~= slot.timeline or base[2] ~= ARGV[2] then return 0 end
if redis.call('HLEN', slot.base) > LARGEST_BASE then
  redis.call('UNLINK', slot.base)
  return 0
end
local filled = 0
for at = 3, #ARGV, 3 do
  local asked = redis.call('HGET', slot.base, '\0m' .. ARGV[at])
  local newer = not asked or tonumber(asked) <= tonumber(ARGV[at + 2])
  if newer and ARGV[at + 1] ~= '' then
    redis.call('HSET', slot.base, ARGV[at], ARGV[at + 1], '\0m' .. ARGV[at], ARGV[at + 2])
    filled = filled + 1
  end
end
return filled
