-- Take if a log has few enough entries of the last span. Times are microseconds.
--
-- KEYS   the log: a moment for each admitted request, the oldest first
-- ARGV   the cost, the capacity, the length of the span
-- Output { 1, or 0 if the log has too many entries; their number; the time until it has few enough;
--          the time until the oldest expires }

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local cost, full, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local function at(place)
  return tonumber(redis.call('LINDEX', KEYS[1], place))
end

local oldest, newest = at(0), at(-1)
while oldest and oldest <= now - span do
  redis.call('LPOP', KEYS[1])
  oldest = at(0)
end
-- Further ahead than the span: the clock was set back.
while newest and newest > now + span do
  redis.call('RPOP', KEYS[1])
  newest = at(-1)
end
local used = redis.call('LLEN', KEYS[1])
if used + cost > full then
  return { 0, used, at(used + cost - full - 1) + span - now, at(0) + span - now }
end

local moment = math.max(now, newest or now)
for _ = 1, cost do
  -- Lua writes numbers of this size with an exponent.
  redis.call('RPUSH', KEYS[1], string.format('%.0f', moment))
end
redis.call('PEXPIRE', KEYS[1], math.ceil((moment + span - now) / 1000))
return { 1, used + cost, 0, at(0) + span - now }
