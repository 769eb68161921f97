-- Add to one counter in the fewest steps, and ask for nothing: neither its total nor what else waits.
-- Nothing is written where something has to be seen to first; `add` does that, and counts.
--
-- KEYS   open
-- ARGV   counter, delta, which a double holds exactly
-- Output 1; 0 where nothing was done: nothing is open, it is of another history of the server, it is to
--        be sealed for its size, or the sum becomes too large

local history = redis.call('HGET', KEYS[1], '\0t')
if not history then return 0 end
-- Each time: no memory of a server is emptied in all cases in which what it keeps becomes older.
local info = redis.pcall('INFO', 'replication')
if type(info) ~= 'string' or not string.find(info, 'master_replid:' .. history, 1, true) then return 0 end

local sum = redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])
-- It may be a new field, and these may be too many: 5,000, beside four of the generation.
if sum == ARGV[2] + 0 and redis.call('HLEN', KEYS[1]) > 5004 then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return 0
end
if sum > 2 ^ 62 or sum < -2 ^ 62 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], string.format('%.0f', -ARGV[2]))
  return 0
end
return 1
