-- Remove a generation that has landed; what is known of totals grows by it.
--
-- KEYS   open, base, ring
-- ARGV   a new generation, the one that has landed, then counters whose totals are to be forgotten
-- Output 1; 0 where it is gone already

-- A server that is full refuses to begin with what takes memory; this is how it gets some back.
redis.call('HDEL', KEYS[2], '\0')
local slot = opened(1, ARGV[1])

-- A page of counters: what is known of their totals grows by what has landed. Many are set at once
-- where Lua counts exactly, which takes a fraction of the time: both parts are far from 2^53.
local function grow(hash, counters, from, last)
  local totals = redis.call('HMGET', slot.base, unpack(counters, from, last))
  local amounts = redis.call('HMGET', hash, unpack(counters, from, last))
  local sums, words = {}, 0
  for i = 1, last - from + 1 do
    local counter, total, amount = counters[from + i - 1], totals[i], amounts[i]
    if total and amount and counter ~= '\0t' then
      local sum = total + amount
      if math.max(math.abs(total), math.abs(amount)) < 2 ^ 52 then
        sums[words + 1], sums[words + 2], words = counter, sum, words + 2
      elseif math.abs(sum) > 2 ^ 62 then
        redis.call('HDEL', slot.base, counter, '\0m' .. counter)
      else
        redis.call('HINCRBY', slot.base, counter, amount)
      end
    end
  end
  if words > 0 then redis.call('HSET', slot.base, unpack(sums)) end
end

-- Only what is known: most counters are not.
local function fold(hash)
  local present = redis.call('HGET', slot.base, '\0t') == slot.timeline
  local own = redis.call('HGET', hash, '\0t') == slot.timeline
  if not (present and own) or redis.call('HLEN', hash) > 2 * EARLY then
    -- One of another history may be the shorter copy of what has landed.
    redis.call('UNLINK', slot.base)
    return
  end
  for at = 3, #ARGV do redis.call('HDEL', slot.base, ARGV[at], '\0m' .. ARGV[at]) end
  local smaller = redis.call('HLEN', slot.base) < redis.call('HLEN', hash) and slot.base or hash
  local counters = redis.call('HKEYS', smaller)
  for from = 1, #counters, 1000 do grow(hash, counters, from, math.min(from + 999, #counters)) end
end

for place in string.gmatch(slot.taken, '%d') do
  local hash = slot.ring[tonumber(place)]
  if redis.call('HGET', hash, '\0g') == ARGV[2] then
    if redis.call('EXISTS', slot.base) == 1 then
      fold(hash)
      redis.call('HDEL', slot.base, '\0v')
    end
    redis.call('UNLINK', hash)
    slot.taken = string.gsub(slot.taken, place, '')
    redis.call('HSET', slot.open, '\0b', slot.taken)
    return 1
  end
end
-- Whether what is known contains it cannot be told.
redis.call('UNLINK', slot.base)
return 0
