-- Take away what waits for the cells of counters whose records are deleted: all fields are looked
-- through. Then do what `discard` does, which stands after it.
--
-- KEYS, ARGV and output are those of `forget`.

local gone = {}
for _, counter in ipairs(ARGV) do gone[counter] = true end
-- The second key has the known totals.
for place = 1, #KEYS do
  for _, field in ipairs(place ~= 2 and redis.call('HKEYS', KEYS[place]) or {}) do
    local counter = string.match(field, '^#%S+ %S* (.*)$')
    if counter and gone[counter] then redis.call('HDEL', KEYS[place], field) end
  end
end

