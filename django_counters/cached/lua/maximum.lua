-- Add to one counter what its value lacks of a number, in one step: what is added is a difference, and
-- lands as any other increment.
--
-- KEYS   open, base, ring
-- ARGV   age (milliseconds), a new generation, counter, number, and from who has asked for the total
--        its lease and the total without anything that waits here; "-" from others
-- Output { the value, what was added }; where the caller has to ask for the total, its answer alone
-- Errors RINGFULL, LARGE (a part of the value is 2^53 or more, where Lua rounds): nothing was added

local age, proposed, counter, number = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local ROUNDED = 2 ^ 53
local slot = opened(1, proposed)
if slot.full then return RINGFULL end

-- The total, if it goes with what waits: nothing may have been sealed, flushed or forgotten since.
local function total_of()
  local base = redis.call('HMGET', slot.base, '\0t', '\0v')
  if base[1] == slot.timeline and base[2] == ARGV[5] then return ARGV[6] end
  local known = totals(slot, { counter }, age, milliseconds())[counter]
  return known and known[1]
end

local total = total_of()
if not total then return { answers(slot, { counter }, age, proposed)[1] } end
local value, largest = tonumber(total), math.abs(total)
local waits = amounts(slot, { counter })[1]
for part = 2, #waits, 2 do
  value, largest = value + waits[part], math.max(largest, math.abs(waits[part]))
end
if math.max(largest, math.abs(value)) >= ROUNDED then return redis.error_reply('LARGE ' .. counter) end
local lacks = math.max(0, number - value)
if lacks > 0 then
  redis.call('HINCRBY', slot.open, counter, string.format('%.0f', lacks))
  seal_early(slot, proposed)
end
return { string.format('%.0f', value + lacks), string.format('%.0f', lacks) }
