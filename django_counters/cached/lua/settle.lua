-- Remember what a call with a token returned, where its answer did not say it.
--
-- KEYS   the key of the token: "<delta> <counter> <told>", a line break, the answer
-- ARGV   the value that was returned
-- Output 1; 0 where the token is forgotten, or the answer did say it

local kept = redis.call('GET', KEYS[1])
local entry = kept and string.match(kept, '^([^\n]*)\n[?!]')
if not entry then return 0 end
redis.call('SET', KEYS[1], entry .. '\n0 ' .. ARGV[1], 'KEEPTTL')
return 1
