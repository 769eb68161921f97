-- Take from a bucket, if it has as much. Times are microseconds.
--
-- KEYS   the bucket: when it will be full again
-- ARGV   how much to take, and how much a full bucket holds
-- Output { 1 or 0 where it has too little, how far ahead of now it will be full }

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local cost, full = tonumber(ARGV[1]), tonumber(ARGV[2])
local arrival = tonumber(redis.call('GET', KEYS[1]) or now) or now
if arrival < now then arrival = now end
-- Further ahead than any can be: the clock was set back, or it would refuse until it is there again.
if arrival > now + 2 * full then arrival = now + full - cost end
if arrival + cost > now + full then return { 0, arrival - now } end

local ahead = arrival + cost - now
-- Lua writes numbers of this size with an exponent.
redis.call('SET', KEYS[1], string.format('%.0f', now + ahead), 'PX', math.ceil(ahead / 1000))
return { 1, ahead }
