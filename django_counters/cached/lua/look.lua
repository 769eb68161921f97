-- Ask for counters, as `add` answers, and add nothing.
--
-- KEYS   ten for each slot: open, base, ring
-- ARGV   age (milliseconds; negative: no totals)
--        for each slot: a new generation, how many counters, then the counters
-- Output one line for each counter, its answer (see slot.lua)

local age = tonumber(ARGV[1])
local told, at, first = {}, 2, 1
while at <= #ARGV do
  local slot = opened(first, ARGV[at])
    local counters = {}
  for i = 1, tonumber(ARGV[at + 1]) do counters[i] = ARGV[at + 1 + i] end
  for _, answer in ipairs(answers(slot, counters, age, ARGV[at])) do told[#told + 1] = answer end
  at, first = at + 2 + #counters, first + 2 + PLACES
end
return table.concat(told, '\n')
