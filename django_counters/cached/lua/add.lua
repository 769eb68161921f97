-- Add to counters, all or none. One slot after the other.
--
-- KEYS   ten for each slot: open, base, ring
-- ARGV   age, how old a known total may be (milliseconds; negative: nothing is asked for)
--        for each slot: a new generation, how many counters, how many cells, then counter and delta
--        of each, then field and delta of each cell
-- Output one line for each counter, its answer (see slot.lua); empty where nothing is asked for
-- Errors RINGFULL, OVERFLOW: nothing was added

local age = tonumber(ARGV[1])
local slots, at, first = {}, 2, 1
while at <= #ARGV do
  local slot = opened(first, ARGV[at])
  if slot.full then return RINGFULL end
  slot.proposed, slot.counters, slot.fields, slot.deltas = ARGV[at], {}, {}, {}
  local counters, cells = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  for i = 1, counters + cells do
    slot.fields[i], slot.deltas[i] = ARGV[at + 1 + 2 * i], ARGV[at + 2 + 2 * i]
    if i <= counters then slot.counters[i] = slot.fields[i] end
  end
  at, first = at + 3 + 2 * #slot.fields, first + 2 + PLACES
  slot.present = fields_of(slot.open, slot.fields)
  for i, field in ipairs(slot.fields) do
    -- Far from the limits a double is good enough to tell.
    if math.abs(tonumber(slot.present[i] or 0) + tonumber(slot.deltas[i])) > 2 ^ 62 then
      return redis.error_reply('OVERFLOW ' .. field)
    end
  end
  slots[#slots + 1] = slot
end
local told = {}
for _, slot in ipairs(slots) do
  local counts, others = {}, {}
  for i, field in ipairs(slot.fields) do
    if slot.present[i] or is_kept(slot.open, field, counts, others) then
      redis.call('HINCRBY', slot.open, field, slot.deltas[i])
    end
  end
  keep(slot.open, counts, others)
  local asked = age < 0 and {} or slot.counters
  for _, answer in ipairs(answers(slot, asked, age, slot.proposed)) do told[#told + 1] = answer end
  seal_early(slot, slot.proposed)
end
return table.concat(told, '\n')
