-- How much waits. Changes nothing.
--
-- KEYS   open, base, ring
-- Output { counters in the open generation, that generation, generations sealed, counters in them,
--          the oldest of them }

local open = redis.call('HGET', KEYS[1], '\0g')
local sealed, counters, oldest = 0, 0, ''
for place = 1, PLACES do
  local generation = redis.call('HGET', KEYS[2 + place], '\0g')
  if generation then
    sealed, counters = sealed + 1, counters + redis.call('HLEN', KEYS[2 + place]) - META
    if oldest == '' or generation < oldest then oldest = generation end
  end
end
return { open and redis.call('HLEN', KEYS[1]) - META or 0, open or '', sealed, counters, oldest }
