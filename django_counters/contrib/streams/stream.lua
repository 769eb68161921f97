-- Read entries of a stream as one JSON text. The client parses it in C; a reply may be parsed by Python.
--
-- KEYS   the stream
-- ARGV   the first id, the most entries
-- Output JSON: for each entry its id, and an object of its fields; "{}" if there is none
--
-- Stops after more than a megabyte: all of it is in memory here, in the reply and in one transaction.
-- Returns at least two entries, if there are: the first is the one at the position.

local SOME, ENOUGH = 50, 1024 * 1024

local entries, size, first, left = {}, 0, ARGV[1], tonumber(ARGV[2])
repeat
  local found = redis.call('XRANGE', KEYS[1], first, '+', 'COUNT', math.min(SOME, left))
  for _, entry in ipairs(found) do
    local flat, fields = entry[2], {}
    for at = 1, #flat, 2 do
      fields[flat[at]] = flat[at + 1]
      size = size + #flat[at + 1]
    end
    entries[#entries + 1] = { entry[1], fields }
    first = '(' .. entry[1]
    if size > ENOUGH and #entries > 1 then return cjson.encode(entries) end
  end
  left = left - #found
until left == 0 or #found < SOME
return cjson.encode(entries)
