-- Let go of what one flusher at a time has, unless it ran out and somebody else has it by now.
--
-- KEYS   the key that says who has it
-- ARGV   who had it
-- Output 1; 0 where it was not ours any more

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
