-- How actors wait in a generation: 512 of each set in a field each, all others in registers. This
-- stands before `add`. The sketches of contrib/uniques/sketches.py have the same registers.
--
-- A place is the low 14 bits of a member: six say which chunk it is in, eight where. A rank is one
-- more than the number of zeros at the end of the other 38 bits. It is written as a character, '0'
-- being none.

local KEPT, CHUNK, REGISTERS, HIGHEST, NONE = 512, 256, 16384, 39, 48

local function measured(member)
  local place, rank = member % REGISTERS, 1
  local rest, at = (member - place) / REGISTERS, place % CHUNK
  while rest % 2 == 0 and rank < HIGHEST do rest, rank = rest / 2, rank + 1 end
  return (place - at) / CHUNK, at + 1, string.char(NONE + rank)
end

-- Whether a new field may be made. It may not where it is that of an actor, and its set has as many
-- as it may: then it is one of `others`. `counts` is how many the sets have, this one included.
local function is_kept(open, field, counts, others)
  local set, member, of = string.match(field, '^#(%d+%.%d+%.%-?%d+)%.(%d+)( .*)$')
  if not set then return true end
  local name = '#n.' .. set .. of
  local count = counts[name] or tonumber(redis.call('HGET', open, name)) or 0
  if count < KEPT then
    counts[name] = count + 1
    return true
  end
  others[#others + 1] = { set .. of, tonumber(member) }
end

local function keep(open, counts, others)
  for name, count in pairs(counts) do redis.call('HSET', open, name, count) end
  for _, other in ipairs(others) do
    local chunk, at, rank = measured(other[2])
    local name = '#r' .. chunk .. '.' .. other[1]
    local ranks = redis.call('HGET', open, name) or string.rep(string.char(NONE), CHUNK)
    if string.sub(ranks, at, at) < rank then
      ranks = string.sub(ranks, 1, at - 1) .. rank .. string.sub(ranks, at + 1)
      redis.call('HSET', open, name, ranks)
    end
  end
end

