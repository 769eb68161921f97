-- The usual case of `add` in the fewest steps: nothing is sealed, and all totals are known and need
-- not be asked for soon; or no totals are asked for, whatever is sealed. In every other case nothing
-- is written here, and `add`, which stands after it, does all of the work.
--
-- KEYS, ARGV and output are those of `add`.

-- Lua writes larger numbers with an exponent, and passes some thousands of arguments, no more. A sum
-- is exact where both of its parts are smaller than that.
local LARGEST, MOST = 1e14, 1000

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
end

local function is_present(history)
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.find(info, 'master_replid:' .. history, 1, true)
end

-- The sum, where it is exact and is written as an integer; nothing where it may not be.
local function exact_sum(amount, delta)
  local sum = amount + delta
  if sum < LARGEST and sum > -LARGEST and delta < LARGEST and delta > -LARGEST then return sum end
end

-- One that is so large is to be sealed early.
local function is_large(open, more)
  return more > 0 and redis.call('HLEN', open) + more > 5000
end

-- Fields with their sums, for HSET, of words that begin at `at`; `amounts` after `skipped` others are
-- what they have now. How many of them are new, and the sets of actors that grow: see actors.lua.
-- Nothing where a sum is not exact.
local function sums_of(open, amounts, skipped, at, count)
  local sums, words, new, counts, others = {}, 0, 0, {}, {}
  for i = 1, count do
    local field, amount = ARGV[at + 2 * i - 2], amounts[skipped + i]
    if amount or is_kept(open, field, counts, others) then
      if not amount then amount, new = 0, new + 1 end
      local sum = exact_sum(amount, tonumber(ARGV[at + 2 * i - 1]))
      if not sum then return end
      sums[words + 1], sums[words + 2], words = field, sum, words + 2
    end
  end
  return sums, new, counts, others
end

-- One counter, which the open generation has already: most of what is asked is this. Its cells, if
-- there are some, follow it.
local function one(age, counter, delta)
  local call, count = redis.call, (#ARGV - 4) / 2
  local names = { '\0t', '\0b', counter }
  for i = 2, count do names[i + 2] = ARGV[3 + 2 * i] end
  local open = call('HMGET', KEYS[1], unpack(names))
  local history, amount = open[1], open[3]
  if not amount or open[2] ~= '' then return end
  local base = call('HMGET', KEYS[2], '\0t', counter, '\0m' .. counter)
  local total, asked = base[2], base[3]
  if base[1] ~= history or not total or not asked then return end
  if not is_present(history) then return end
  local old, sum = milliseconds() - asked, exact_sum(amount, tonumber(delta))
  if old > age or not sum then return end
  if count == 1 then
    call('HINCRBY', KEYS[1], counter, delta)
  else
    local sums, new, counts, others = sums_of(KEYS[1], open, 2, 5, count)
    if not sums or is_large(KEYS[1], new) then return end
    call('HSET', KEYS[1], unpack(sums))
    keep(KEYS[1], counts, others)
  end
  return (old > 0 and old or 0) .. ' ' .. total .. ' ' .. sum
end

-- What is asked for a slot, whose words begin at `at`: counters, then cells.
local function fields(at, count, cells)
  local open, base = { '\0t', '\0b' }, { '\0t' }
  for i = 1, count + cells do
    local field = ARGV[at + 1 + 2 * i]
    open[i + 2] = field
    if i <= count then base[2 * i], base[2 * i + 1] = field, '\0m' .. field end
  end
  return open, base
end

local function several(age)
  local asks, now, told, sums, at = age > 0, milliseconds(), {}, {}, 2
  local history = redis.call('HGET', KEYS[1], '\0t')
  if not history or not is_present(history) then return end
  for first = 1, #KEYS, 10 do
    local count, cells = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    if count + cells > MOST then return end
    local names, known = fields(at, count, cells)
    local open = redis.call('HMGET', KEYS[first], unpack(names))
    local base = asks and redis.call('HMGET', KEYS[first + 1], unpack(known)) or { history }
    if open[1] ~= history or base[1] ~= history or asks and open[2] ~= '' then return end
    local added, new, counts, others = sums_of(KEYS[first], open, 2, at + 3, count + cells)
    if not added then return end
    for i = 1, asks and count or 0 do
      local total, asked = base[2 * i], base[2 * i + 1]
      if not total or not asked or now - asked > age then return end
      told[#told + 1] = (now > asked + 0 and now - asked or 0) .. ' ' .. total .. ' ' .. added[2 * i]
    end
    if is_large(KEYS[first], new) then return end
    sums[first], at = { added, counts, others }, at + 3 + 2 * (count + cells)
  end
  for first, added in pairs(sums) do
    redis.call('HSET', KEYS[first], unpack(added[1]))
    keep(KEYS[first], added[2], added[3])
  end
  return table.concat(told, '\n')
end

local age, answer = tonumber(ARGV[1]), nil
-- In the last fifth of it somebody has to ask; see `due` in slot.lua.
age = age - age / 5
-- For 0 everybody has to: no total is young enough.
if age ~= 0 then
  local single = age > 0 and #KEYS == 10 and ARGV[3] == '1' and #ARGV < MOST
  answer = single and one(age, ARGV[5], ARGV[6]) or several(age)
end
if answer then return answer end

