-- Read a page of a sealed generation. As one text: a client would take ten times as long to read
-- each word of it.
--
-- KEYS   the place of the ring
-- ARGV   the generation, where to go on ("0" at first), about how many fields, and the history of
--        the server that told of the generation
-- Output where to go on ("0": that was all), and a JSON array of fields and values in turn;
--        nothing where another generation is there, or none
-- Errors HISTORY: pages of two histories may be of two states of the generation

if HISTORY ~= ARGV[4] then return redis.error_reply('HISTORY the server has another one by now') end
if redis.call('HGET', KEYS[1], '\0g') ~= ARGV[1] then return {} end
local page = redis.call('HSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
-- An empty table would be an object.
return { page[1], #page[2] == 0 and '[]' or cjson.encode(page[2]) }
