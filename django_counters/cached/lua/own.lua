-- Say whose increments these are: those of the database that asked first, or took them over.
--
-- KEYS   the key that says whose they are
-- ARGV   the identity of the database that asks, and 1 if it takes them over
-- Output the identity of the database whose they are

local owner = redis.call('GET', KEYS[1])
if owner and ARGV[2] == '0' then return owner end
-- A server that is full refuses to begin with what takes memory, and has to be flushed all the more.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
