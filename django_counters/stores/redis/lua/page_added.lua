-- Which pages were added.
--
-- KEYS   the key of each page
-- Output 1 or 0 for each

local told = {}
for i, key in ipairs(KEYS) do told[i] = redis.call('GET', key) == '' and 1 or 0 end
return told
