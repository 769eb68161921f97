-- Read entries of a stream as one text: taken apart by C, where a reply may be taken apart by Python.
--
-- KEYS   the stream
-- ARGV   the first id, how many at most
-- Output JSON: for each entry its id, and an object of its fields; "{}" where there is none

local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
for _, entry in ipairs(entries) do
  local flat, fields = entry[2], {}
  for at = 1, #flat, 2 do fields[flat[at]] = flat[at + 1] end
  entry[2] = fields
end
return cjson.encode(entries)
