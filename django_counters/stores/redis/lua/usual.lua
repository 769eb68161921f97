-- The usual case of `add` in the fewest steps: nothing is sealed, and all totals are known and need
-- not be asked for soon. In every other case nothing is written here, and `add`, which stands after
-- it, does all of the work.
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

local function is_small(number)
  return number < LARGEST and number > -LARGEST
end

-- The sum, where it is exact and is written as an integer; nothing where it may not be.
local function exact_sum(amount, delta)
  local a, b = tonumber(amount), tonumber(delta)
  if is_small(a) and is_small(b) and is_small(a + b) then return a + b end
end

-- One counter, which the open generation has already: most of what is asked is this.
local function one(age, counter, delta)
  local call = redis.call
  local open = call('HMGET', KEYS[1], '\0t', '\0b', counter)
  local history, amount = open[1], open[3]
  if not amount or open[2] ~= '' then return end
  local base = call('HMGET', KEYS[2], '\0t', counter, '\0m' .. counter)
  local total, asked = base[2], base[3]
  if base[1] ~= history or not total or not asked then return end
  if not is_present(history) then return end
  local old, sum = milliseconds() - asked, exact_sum(amount, delta)
  if old > age or not sum then return end
  call('HINCRBY', KEYS[1], counter, delta)
  return (old > 0 and old or 0) .. ' ' .. total .. ' ' .. sum
end

-- What is asked for the counters of a slot, whose words begin at `at`.
local function fields(at, count)
  local open, base = { '\0t', '\0b' }, { '\0t' }
  for i = 1, count do
    local counter = ARGV[at + 2 * i]
    open[i + 2], base[2 * i], base[2 * i + 1] = counter, counter, '\0m' .. counter
  end
  return open, base
end

local function several(age)
  local now, told, sums, at = milliseconds(), {}, {}, 2
  local history = redis.call('HGET', KEYS[1], '\0t')
  if not history or not is_present(history) then return end
  for first = 1, #KEYS, 10 do
    local count, fresh, added = tonumber(ARGV[at + 1]), false, {}
    if count > MOST then return end
    local names, known = fields(at, count)
    local open = redis.call('HMGET', KEYS[first], unpack(names))
    local base = redis.call('HMGET', KEYS[first + 1], unpack(known))
    if open[1] ~= history or open[2] ~= '' or base[1] ~= history then return end
    for i = 1, count do
      local total, asked, amount = base[2 * i], base[2 * i + 1], open[i + 2]
      if not total or not asked or now - asked > age then return end
      if not amount then amount, fresh = 0, true end
      local sum = exact_sum(amount, ARGV[at + 2 * i + 1])
      if not sum then return end
      added[2 * i - 1], added[2 * i] = names[i + 2], sum
      told[#told + 1] = (now > asked + 0 and now - asked or 0) .. ' ' .. total .. ' ' .. sum
    end
    -- One that is so large is to be sealed early.
    if fresh and redis.call('HLEN', KEYS[first]) + count > 5000 then return end
    sums[first], at = added, at + 2 + 2 * count
  end
  for first, added in pairs(sums) do redis.call('HSET', KEYS[first], unpack(added)) end
  return table.concat(told, '\n')
end

local age, answer = tonumber(ARGV[1]), nil
-- In the last fifth of it somebody has to ask; see `due` in slot.lua.
age = age - age / 5
if age >= 0 then answer = #ARGV == 5 and one(age, ARGV[4], ARGV[5]) or several(age) end
if answer then return answer end

