-- Take the cells of counters whose records are deleted out of a page of one generation. `discard` came
-- first.
--
-- A counter that has a field of its own in the generation again was counted since, for a new record:
-- its cells stay, with those of the old record that are not gone by then.
--
-- KEYS   open, base, ring
-- ARGV   the generation, where to go on, about how many fields a page has, then the counters
-- Output where to go on ("0": that was all)

local gone = {}
for i = 4, #ARGV do gone[ARGV[i]] = true end
-- The server finds the fields of one counter several times as fast as Lua looks through all.
local pattern = '#* ' .. (#ARGV == 4 and string.gsub(ARGV[4], '[%*%?%[%]\\]', '\\%0') or '*')

for place = 1, #KEYS do
  -- The second key has the known totals.
  if place ~= 2 and redis.call('HGET', KEYS[place], '\0g') == ARGV[1] then
    local page = redis.call('HSCAN', KEYS[place], ARGV[2], 'MATCH', pattern, 'COUNT', ARGV[3])
    for i = 1, #page[2], 2 do
      local counter = string.match(page[2][i], '^#%S+ %S* (.*)$')
      if counter and gone[counter] and redis.call('HEXISTS', KEYS[place], counter) == 0 then
        redis.call('HDEL', KEYS[place], page[2][i])
      end
    end
    return page[1]
  end
end
return '0'
