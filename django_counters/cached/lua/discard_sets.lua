-- Take what actors of a forgotten counter have in a generation away, as `fields` has returned it. What
-- was counted since stays.
--
-- KEYS   open, base, ring
-- ARGV   generation, field and value of each in turn
-- Output nothing

local function is_set(field)
  local numbers = string.match(field, '^#(%S+) ')
  return numbers and string.match(numbers, '^%d+%.%d+%.%-?%d+%.%d+$')
end

-- An increment with a token stays, without its actors.
local function strip(hash, field)
  local kept, lines = redis.call('HGET', hash, field), {}
  for line in string.gmatch(kept or '', '[^\n]+') do
    if not is_set(line) then lines[#lines + 1] = line end
  end
  if kept then redis.call('HSET', hash, field, table.concat(lines, '\n')) end
end

-- An actor who was seen since stays, and else its set has one less.
local function unsee(hash, field, times)
  if redis.call('HEXISTS', hash, field) == 0 then return end
  if redis.call('HINCRBY', hash, field, string.format('%.0f', -times)) > 0 then return end
  redis.call('HDEL', hash, field)
  local set, of = string.match(field, '^#(%d+%.%d+%.%-?%d+)%.%d+( .*)$')
  local count = '#n.' .. set .. of
  if redis.call('HINCRBY', hash, count, -1) < 1 then redis.call('HDEL', hash, count) end
end

local hashes = {}
for place = 1, #KEYS do
  -- The second key has the known totals.
  local generation = place ~= 2 and redis.call('HGET', KEYS[place], '\0g')
  if generation then hashes[generation] = KEYS[place] end
end
for i = 1, #ARGV, 3 do
  local hash, field, value = hashes[ARGV[i]], ARGV[i + 1], ARGV[i + 2]
  if hash and string.sub(field, 1, 2) == '\0k' then
    strip(hash, field)
  elseif hash and is_set(field) then
    unsee(hash, field, value)
  elseif hash then
    -- Registers can't be told apart: those of actors since go, too.
    redis.call('HDEL', hash, field)
  end
end
