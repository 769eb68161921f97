-- Add to one counter in the fewest steps. Nothing is written if anything has to be seen to first; `add`
-- does that, and counts.
--
-- KEYS   open; base if a total is asked for
-- ARGV   counter, delta, which a double holds exactly; how old a known total may be (milliseconds), if
--        it is asked for
-- Output 1, or the answer (see slot.lua) if a total is asked for; 0 where nothing was done: nothing is
--        open, it is of another history of the server, it is to be sealed for its size, or the sum
--        becomes too large; or the total is not known, or to be asked for soon, or something is sealed

local call, counter, age = redis.call, ARGV[1], ARGV[3]
local open = call('HMGET', KEYS[1], '\0t', '\0b')
local history, total, old = open[1], nil, nil
if not history then return 0 end
if age then
  if open[2] ~= '' then return 0 end
  local base = call('HMGET', KEYS[2], '\0t', counter, '\0m' .. counter)
  if base[1] ~= history or not base[2] or not base[3] then return 0 end
  local time = call('TIME')
  total, old = base[2], time[1] * 1000 + (time[2] - time[2] % 1000) / 1000 - base[3]
  -- In the last fifth of it somebody has to ask, and for 0 everybody; see `due` in slot.lua.
  if age == '0' or old > age - age / 5 then return 0 end
end
-- Each time: no memory of a server is emptied in all cases in which what it keeps becomes older.
local info = redis.pcall('INFO', 'replication')
if type(info) ~= 'string' or not string.find(info, 'master_replid:' .. history, 1, true) then return 0 end

local sum = call('HINCRBY', KEYS[1], counter, ARGV[2])
-- It may be a new field, and these may be too many: 5,000, beside four of the generation.
if sum == ARGV[2] + 0 and call('HLEN', KEYS[1]) > 5004 then
  call('HDEL', KEYS[1], counter)
  return 0
end
if sum > 2 ^ 62 or sum < -2 ^ 62 then
  call('HINCRBY', KEYS[1], counter, string.format('%.0f', -ARGV[2]))
  return 0
end
if not age then return 1 end
-- Lua writes larger numbers with an exponent.
if sum >= 1e14 or sum <= -1e14 then sum = call('HGET', KEYS[1], counter) end
return (old > 0 and old or 0) .. ' ' .. total .. ' ' .. sum
