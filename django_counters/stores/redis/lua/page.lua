-- Add a page of counters, unless it was added. `add` stands before it as the function `added`.
--
-- KEYS   open, base, ring of one slot, and the key of the page
-- ARGV   how many milliseconds ago and ahead the time of the page may be, its id, then as `add`
-- Output nothing
-- Errors RINGFULL, OVERFLOW, EXPIRED (what was added so long ago is forgotten): nothing was added

local back, ahead = tonumber(table.remove(ARGV, 1)), tonumber(table.remove(ARGV, 1))
local page, remembered = table.remove(ARGV, 1), table.remove(KEYS)
local before = redis.call('GET', remembered)
if before == '' then return '' end
local age = milliseconds() - moment_of(page)
if age >= back or -age >= ahead then return redis.error_reply('EXPIRED ' .. page) end
-- Whoever was told that it does not fit counts its halves, so that it never fits as a whole.
local told = before and redis.error_reply('OVERFLOW ' .. page) or added()
if type(told) ~= 'table' then
  redis.call('SET', remembered, '', 'PX', back + ahead)
  return ''
end
if told.err and string.find(told.err, '^OVERFLOW') then
  redis.call('SET', remembered, 'halved', 'PX', back + ahead)
end
return told
