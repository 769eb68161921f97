-- Add to one counter, unless its token was used.
--
-- KEYS   open, base, ring, and the key of the token: "<delta> <counter> <told>", a line break, the
--        answer
-- ARGV   age (milliseconds), a new generation, counter, delta, token, how many milliseconds ago and
--        ahead its time may be, a digest of its tags, moment and actor (empty for none, and then left
--        out with its blank), and the fields of its cells
-- Output { answer, 0 }; where the token was used { what was answered then, 1 }
-- Errors RINGFULL, OVERFLOW, CONFLICT (used for something else), EXPIRED: nothing was added

local proposed, counter, delta, token = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local slot = opened(1, proposed)
if slot.full then return RINGFULL end
local remembered, entry = KEYS[3 + PLACES], delta .. ' ' .. counter
if ARGV[8] ~= '' then entry = entry .. ' ' .. ARGV[8] end
local back, ahead, age = tonumber(ARGV[6]), tonumber(ARGV[7]), milliseconds() - moment_of(token)

local function used()
  local kept = redis.call('GET', remembered)
  if kept then return string.match(kept, '^([^\n]*)\n(.*)$') end
  -- The key of a token may be evicted; the increment itself is not.
  local hashes = { slot.open }
  for place in string.gmatch(slot.taken, '%d') do
    hashes[#hashes + 1] = slot.ring[tonumber(place)]
  end
  for _, hash in ipairs(hashes) do
    local found = redis.call('HGET', hash, '\0k' .. token)
    -- Its cells do not matter: a later call may be of another hour.
    if found then return string.match(found, '^[^\n]*'), answers(slot, { counter }, tonumber(ARGV[1]), proposed)[1] end
  end
end

local before, answer = used()
if before and before ~= entry then return redis.error_reply('CONFLICT ' .. token) end
if before then return { answer, 1 } end
if age >= back or -age >= ahead then return redis.error_reply('EXPIRED ' .. token) end
local present = redis.call('HGET', slot.open, counter)
if math.abs(tonumber(present or 0) + tonumber(delta)) > 2 ^ 62 then
  return redis.error_reply('OVERFLOW ' .. counter)
end
redis.call('HINCRBY', slot.open, counter, delta)
-- The landing adds to the cells, and to sets of actors, if the token is new there, too.
redis.call('HSET', slot.open, '\0k' .. token, table.concat({ entry, unpack(ARGV, 9) }, '\n'))
answer = answers(slot, { counter }, tonumber(ARGV[1]), proposed)[1]
redis.call('SET', remembered, entry .. '\n' .. answer, 'PX', back + ahead)
seal_early(slot, proposed)
return { answer, 0 }
