-- Take what one flusher at a time has, or keep it for longer.
--
-- KEYS   the key that says who has it
-- ARGV   who asks, and for how many milliseconds
-- Output 1; 0 where somebody else has it

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
