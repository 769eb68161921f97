-- Take from a bucket if enough is left. Times are microseconds.
--
-- KEYS   the bucket: the moment when it is full again
-- ARGV   the cost, the capacity, the length of a span
-- Output { 1, or 0 if too little is left; the time from the end of the span to the bucket's moment;
--          the time until the end of the span, twice }

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local cost, full, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
-- fmod is exact; Lua's own % divides.
local start = now - math.fmod(now, span) + span
local arrival = tonumber(redis.call('GET', KEYS[1]) or start) or start
if arrival < start then arrival = start end
-- Further ahead than a full bucket allows: the clock was set back. The bucket would refuse until the
-- clock has caught up.
if arrival > start + 2 * full then arrival = start + full - cost end
if arrival + cost > start + full then
  return { 0, arrival - start, start - now, start - now }
end

arrival = arrival + cost
-- Lua writes numbers of this size with an exponent.
redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - now) / 1000))
return { 1, arrival - start, start - now, start - now }
