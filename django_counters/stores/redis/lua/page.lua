-- Add a page of counters, unless it was added. `add` stands before it as the function `added`.
--
-- KEYS   open, base, ring of one slot, and the key of the page
-- ARGV   how many milliseconds ago and ahead the time of the page may be, its id, then as `add`
-- Output nothing
-- Errors RINGFULL, OVERFLOW, EXPIRED (what was added so long ago is forgotten): nothing was added

local back, ahead = tonumber(table.remove(ARGV, 1)), tonumber(table.remove(ARGV, 1))
local page, remembered = table.remove(ARGV, 1), table.remove(KEYS)
if redis.call('EXISTS', remembered) == 1 then return '' end
local age = milliseconds() - moment_of(page)
if age >= back or -age >= ahead then return redis.error_reply('EXPIRED ' .. page) end
local told = added()
if type(told) == 'table' then return told end
redis.call('SET', remembered, '', 'PX', back + ahead)
return ''
