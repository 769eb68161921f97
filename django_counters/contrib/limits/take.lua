-- Take from a bucket, if it has as much. Times are microseconds.
--
-- KEYS   the bucket: the moment that it counts to
-- ARGV   how much to take, how much a full bucket holds, how long a span is
-- Output { 1 or 0 where it has too little, how far the bucket counts from the end of the span on,
--          how far ahead that end is, twice }

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local cost, full, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
-- fmod is exact; Lua's own % divides.
local start = now - math.fmod(now, span) + span
local arrival = tonumber(redis.call('GET', KEYS[1]) or start) or start
if arrival < start then arrival = start end
-- Further ahead than any can be: the clock was set back, or it would refuse until it is there again.
if arrival > start + 2 * full then arrival = start + full - cost end
if arrival + cost > start + full then
  return { 0, arrival - start, start - now, start - now }
end

arrival = arrival + cost
-- Lua writes numbers of this size with an exponent.
redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - now) / 1000))
return { 1, arrival - start, start - now, start - now }
