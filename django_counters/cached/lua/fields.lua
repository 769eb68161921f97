-- The fields of one counter that wait, as of one moment: its own, those of its cells, and increments
-- with tokens. Each call looks through a page of one generation.
--
-- The first call sets the moment. It returns the fields of the open generation at once if that is
-- small. Else it seals that generation, so that its pages don't change while they are read.
--
-- KEYS   open, base, ring
-- ARGV   a new generation, the counter, about how many fields a page has; then, but for the first
--        call, a generation, where to go on, and the history of the server that the first call returned
-- Output { history, where to go on ("0": that was all), generation, field and value of each in turn };
--        the first call returns the generations to look through in place of where to go on, as a table
-- Errors HISTORY: pages of two histories may be of two states of a generation

local counter, most = ARGV[2], tonumber(ARGV[3])
local slot = opened(1, ARGV[1])

-- Append those of its fields that are among a generation's fields and values.
local function pick(told, generation, words)
  for i = 1, #words, 2 do
    local field, value = words[i], words[i + 1]
    local owner = string.match(field, '^#%S+ %S* (.*)$') or field
    -- Behind its counter there may be a digest.
    if string.sub(field, 1, 2) == '\0k' then owner = string.match(value, '^%S+ (%S*)') end
    if owner == counter then
      local at = #told
      told[at + 1], told[at + 2], told[at + 3] = generation, field, value
    end
  end
  return told
end

if not ARGV[4] then
  local told, sealed = { HISTORY, {} }, {}
  -- Each increment leaves a field of the counter itself, even if it comes to zero.
  if redis.call('HEXISTS', slot.open, counter) == 1 then
    -- If the ring is full, no flush has run for long, and all is read in this call.
    local large = redis.call('HLEN', slot.open) > most + META
    if not (large and seal(slot, ARGV[1])) then
      pick(told, slot.generation, redis.call('HGETALL', slot.open))
    end
  end
  for place in string.gmatch(slot.taken, '%d') do
    sealed[#sealed + 1] = redis.call('HGET', slot.ring[tonumber(place)], '\0g')
  end
  told[2] = sealed
  return told
end

if HISTORY ~= ARGV[6] then return redis.error_reply('HISTORY the server has another one by now') end
for place in string.gmatch(slot.taken, '%d') do
  local hash = slot.ring[tonumber(place)]
  if redis.call('HGET', hash, '\0g') == ARGV[4] then
    local page = redis.call('HSCAN', hash, ARGV[5], 'COUNT', most)
    return pick({ HISTORY, page[1] }, ARGV[4], page[2])
  end
end
-- It has landed.
return { HISTORY, '0' }
