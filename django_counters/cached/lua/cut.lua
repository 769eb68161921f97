-- Seal the open generation, if no other one waits, and say what is sealed.
--
-- KEYS   open, base, ring
-- ARGV   a new generation, and for how many milliseconds one may stay open though it is empty
-- Output { open generation, the one before it, history, fields of it,
--          then of each sealed one: { place, generation, the one before it, history, fields } }

-- A server that is full refuses to begin with what takes memory; this is how it gets some back.
redis.call('HDEL', KEYS[2], '\0')
local slot = opened(1, ARGV[1])
if slot.taken == '' and not slot.created then
  local filled = redis.call('HLEN', slot.open) > META
  local old = moment_of(slot.generation) < milliseconds() - ARGV[2]
  if filled or old then seal(slot, ARGV[1]) end
end
local told = { slot.generation, redis.call('HGET', slot.open, '\0o'), slot.timeline,
  redis.call('HLEN', slot.open) - META }
for place in string.gmatch(slot.taken, '%d') do
  local hash = slot.ring[tonumber(place)]
  local meta = redis.call('HMGET', hash, '\0g', '\0o', '\0t')
  told[#told + 1] = { tonumber(place), meta[1], meta[2], meta[3], redis.call('HLEN', hash) - META }
end
return told
