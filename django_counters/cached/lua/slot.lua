-- What all verbs share; it stands before each of them.
--
-- KEYS, ten for each slot, in this order:
--   open     hash   the generation that takes increments. No TTL.
--   base     hash   totals of the database, as far as they were asked for. Has a TTL.
--   ring     8 hashes   generations that are sealed: nothing is added to them any more. No TTL.
--
-- Fields of a generation:
--   \0g  its id, made before its first increment
--   \0t  the history of the server that it belongs to (master_replid)
--   \0b  the places of the ring that are taken, one digit each
--   \0o  the generation before it; empty where there was none
--   \0k<token>  "<delta> <counter> <told>", an increment that has a token, and a line for each of its cells
--   <counter>   what was added to it, those with tokens included
--   #<measure>.<period>.<start> <tags> <counter>   what was added to a cell, without those
--   #<measure>.<period>.<start>.<member> <tags> <counter>   how often an actor of a set was seen
--   #n.<measure>.<period>.<start> <tags> <counter>   how many of these its set has
--   #r<chunk>.<measure>.<period>.<start> <tags> <counter>   registers of all others: see actors.lua
-- Fields of the base:
--   \0t  the history of the server that it belongs to
--   \0v  the lease: whoever holds it may fill in totals
--   <counter>     its total, without anything that waits here
--   \0m<counter>  when that was asked for, in milliseconds
--   \0a<counter>  since when one caller asks for it, whom the others leave it to: its turn. Below
--                 zero: since when it is known that he cannot fill it in, so that everybody may ask
--
-- Numbers are kept and returned as strings: Lua would round them.

local PLACES, EARLY, META = 8, 5000, 4
local HOUR = 3600000
local BASE_TTL, LARGEST_BASE = HOUR, 200000
-- For how long others wait for one who asks for a total, in milliseconds.
local TURN = 500

-- The history of the server: it has another one after a restart, and after a failover.
local info = redis.pcall('INFO', 'replication')
if type(info) ~= 'string' then return redis.error_reply('NOINFO a script may not ask for INFO here') end
local HISTORY = string.match(info, 'master_replid:(%x+)')

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The moment of a generation: twelve hexadecimal digits of milliseconds, then chance and its slot.
local function moment_of(generation)
  return tonumber(string.sub(generation, 1, 12), 16) or 0
end

-- What seems to be of long ago would not be landed. Of two clocks, the one that is ahead is taken:
-- then a host may be far behind, or this server.
local function create(slot, generation, before)
  local now = milliseconds()
  if now - moment_of(generation) > HOUR then
    generation = string.format('%012x', now) .. string.sub(generation, 13)
  end
  redis.call('HSET', slot.open, '\0g', generation, '\0t', slot.timeline, '\0b', slot.taken,
    '\0o', before)
  slot.generation, slot.created = generation, true
end

-- Move the open generation into the ring, and open the next one. False where the ring is full.
local function seal(slot, generation)
  for place = 0, PLACES - 1 do
    if not string.find(slot.taken, place, 1, true) then
      slot.taken = slot.taken .. place
      if redis.call('RENAMENX', slot.open, slot.ring[place]) == 1 then
        redis.call('HDEL', slot.base, '\0v')
        create(slot, generation, slot.generation)
        return true
      end
    end
  end
  return false
end

-- What is very large is sealed before its flush, unless this call has just opened it.
local function seal_early(slot, generation)
  if not slot.created and redis.call('HLEN', slot.open) >= EARLY + META then
    seal(slot, generation)
  end
end

-- What is in the ring, whatever was said of it.
local function scan(slot)
  local taken = ''
  for place = 0, PLACES - 1 do
    if redis.call('EXISTS', slot.ring[place]) == 1 then taken = taken .. place end
  end
  return taken
end

-- Something is gone that nobody took away, so nobody added it to the known totals either.
local function repair(slot)
  slot.taken = scan(slot)
  redis.call('UNLINK', slot.base)
  if slot.generation then redis.call('HSET', slot.open, '\0b', slot.taken) end
end

local function is_whole(slot)
  if not slot.generation then return false end
  for place in string.gmatch(slot.taken, '%d') do
    if redis.call('EXISTS', slot.ring[tonumber(place)]) == 0 then return false end
  end
  return true
end

-- The slot whose keys begin at `first`. Nothing is ever added to a generation of another history of
-- the server: it may be older than what was already flushed. `full` where there is no place for it.
local function opened(first, generation)
  local slot = { open = KEYS[first], base = KEYS[first + 1], ring = {}, timeline = HISTORY,
    taken = '' }
  for place = 0, PLACES - 1 do slot.ring[place] = KEYS[first + 2 + place] end
  local meta = redis.call('HMGET', slot.open, '\0g', '\0t', '\0b')
  slot.generation, slot.taken = meta[1], meta[3] or ''
  if not is_whole(slot) then repair(slot) end
  if not slot.generation then
    create(slot, generation, '')
  elseif meta[2] ~= HISTORY then
    slot.full = not seal(slot, generation)
  end
  return slot
end

-- HMGET of any number of fields: Lua passes some thousands of arguments, no more.
local function fields_of(hash, fields)
  local values = {}
  for from = 1, #fields, 1000 do
    local last = math.min(from + 999, #fields)
    for i, value in ipairs(redis.call('HMGET', hash, unpack(fields, from, last))) do
      values[from + i - 1] = value
    end
  end
  return values
end

local RINGFULL = redis.error_reply('RINGFULL the flush is behind, and the server restarted')

-- Totals of counters that are known and younger than `age`, by counter. Both moments are cut to whole
-- milliseconds: one that seems to be as old as `age` may be older. None is young enough for 0, not even
-- one of this millisecond, or one of the future of a clock that was set back.
local function totals(slot, counters, age, now)
  local fields = { '\0t' }
  for _, counter in ipairs(counters) do
    fields[#fields + 1] = counter
    fields[#fields + 1] = '\0m' .. counter
  end
  local base = fields_of(slot.base, fields)
  if base[1] and base[1] ~= slot.timeline then
    redis.call('UNLINK', slot.base)
    return {}
  end
  local found = {}
  for i, counter in ipairs(counters) do
    local total, asked = base[2 * i], base[2 * i + 1]
    if total and asked and math.max(0, now - asked) < age then found[counter] = { total, asked } end
  end
  return found
end

-- The lease of the slot: whoever has it may fill in totals, until something is sealed or flushed.
local function lease(slot, proposed)
  local present = redis.call('HGET', slot.base, '\0v')
  if present then return present end
  redis.call('HSET', slot.base, '\0v', proposed, '\0t', slot.timeline)
  if redis.call('PTTL', slot.base) < 0 then redis.call('PEXPIRE', slot.base, BASE_TTL) end
  return proposed
end

-- What waits for each counter: pairs of generation and amount, the open one first.
local function amounts(slot, counters)
  local found = {}
  for i = 1, #counters do found[i] = {} end
  local hashes = { slot.open }
  for place in string.gmatch(slot.taken, '%d') do
    hashes[#hashes + 1] = slot.ring[tonumber(place)]
  end
  for _, hash in ipairs(hashes) do
    local generation, row = redis.call('HGET', hash, '\0g'), fields_of(hash, counters)
    for i = 1, #counters do
      if generation and row[i] then
        table.insert(found[i], generation)
        table.insert(found[i], row[i])
      end
    end
  end
  return found
end

-- Totals that somebody has to ask for: those that are not known, and those in the last fifth of the
-- time for which they are good.
local function due(counters, known, age, now)
  local found = {}
  for _, counter in ipairs(counters) do
    local total = known[counter]
    if not total or now - total[2] > age - age / 5 then found[#found + 1] = counter end
  end
  return found
end

-- Who asks for the totals that are due: "mine" or "another", by counter; nothing where all may. One
-- caller at a time asks. While a total is good, the others go on with it, and the next one asks after
-- a tenth of its time. Nobody's clock matters but that of this server, which may be set back.
local function turns(slot, counters, known, age, now)
  local fields, found, taken = {}, {}, {}
  for i, counter in ipairs(counters) do fields[i] = '\0a' .. counter end
  for i, since in ipairs(fields_of(slot.base, fields)) do
    local counter, began = counters[i], tonumber(since or 0)
    if math.abs(now - math.abs(began)) >= (known[counter] and age / 10 or TURN) then
      found[counter] = 'mine'
      taken[#taken + 1], taken[#taken + 2] = fields[i], now
    elseif began > 0 then
      found[counter] = 'another'
    end
  end
  for from = 1, #taken, 1000 do
    -- A server that is full does not take it; what is known is good all the same.
    local last = math.min(from + 999, #taken)
    local kept = redis.pcall('HSET', slot.base, unpack(taken, from, last))
    if type(kept) == 'table' then return {} end
  end
  return found
end

-- One answer for each counter. Where its total is known: how old that is (milliseconds), the total,
-- and what waits. Where the caller has to ask for it: "?", the lease, the time, what may be used all
-- the same if he cannot (the total and how old it is; "-" where there is none), and pairs of
-- generation and amount. "!" for "?" where another one asks just now.
-- `age` in milliseconds: a total is younger; negative where none is wanted. Below a turn nobody
-- leaves it to another: what he finds would be too old when it comes.
local function answers(slot, counters, age, proposed)
  local now = milliseconds()
  local known = age < 0 and {} or totals(slot, counters, age, now)
  local turn = age < TURN and {} or turns(slot, due(counters, known, age, now), known, age, now)
  local waits, told, held = amounts(slot, counters), {}, nil
  for i, counter in ipairs(counters) do
    local total, parts = known[counter], waits[i]
    local old = total and math.max(0, now - total[2])
    if total and turn[counter] ~= 'mine' then
      local words = { old, total[1] }
      for part = 2, #parts, 2 do words[#words + 1] = parts[part] end
      told[i] = table.concat(words, ' ')
    else
      held = held or (age < 0 and '-' or lease(slot, proposed))
      local whose, kept = turn[counter] == 'another' and '!' or '?', total and total[1] or '-'
      told[i] = table.concat({ whose, held, now, kept, old or '-', unpack(parts) }, ' ')
    end
  end
  return told
end
