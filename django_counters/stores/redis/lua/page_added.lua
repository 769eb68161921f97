-- Whether a page was added.
--
-- KEYS   the key of the page
-- Output 1 or 0

return redis.call('GET', KEYS[1]) == '' and 1 or 0
