-- Add to counters, all or none. One slot after the other.
--
-- KEYS   ten for each slot: open, base, ring
-- ARGV   age, how old a known total may be (milliseconds)
--        for each slot: a new generation, how many counters, then counter and delta of each
-- Output one line for each counter, its answer (see slot.lua)
-- Errors RINGFULL, OVERFLOW: nothing was added

local age = tonumber(ARGV[1])
local slots, at, first = {}, 2, 1
while at <= #ARGV do
  local slot = opened(first, ARGV[at])
  if slot.full then return RINGFULL end
  slot.proposed, slot.counters, slot.deltas = ARGV[at], {}, {}
  for i = 1, tonumber(ARGV[at + 1]) do
    slot.counters[i], slot.deltas[i] = ARGV[at + 2 * i], ARGV[at + 2 * i + 1]
  end
  at, first = at + 2 + 2 * #slot.counters, first + 2 + PLACES
  slot.present = fields_of(slot.open, slot.counters)
  for i, counter in ipairs(slot.counters) do
    -- Far from the limits a double is good enough to tell.
    if math.abs(tonumber(slot.present[i] or 0) + tonumber(slot.deltas[i])) > 2 ^ 62 then
      return redis.error_reply('OVERFLOW ' .. counter)
    end
  end
  slots[#slots + 1] = slot
end
local told = {}
for _, slot in ipairs(slots) do
  for i, counter in ipairs(slot.counters) do
    redis.call('HINCRBY', slot.open, counter, slot.deltas[i])
  end
  for _, answer in ipairs(answers(slot, slot.counters, age, slot.proposed)) do
    told[#told + 1] = answer
  end
  seal_early(slot, slot.proposed)
end
return table.concat(told, '\n')
