-- Add pages of counters as one, unless they were added. `add` stands before it as the function
-- `added`.
--
-- KEYS   open, base, ring of one slot, and the key of each page, the last one first
-- ARGV   how many milliseconds ago and ahead the times of the pages may be, how many pages, their
--        ids, then as `add`
-- Output 1; 0 where the only page was added before
-- Errors RINGFULL, OVERFLOW, EXPIRED (what was added so long ago is forgotten), CONFLICT (one of
--        several was added, or has halves): nothing was added

local back, ahead = tonumber(table.remove(ARGV, 1)), tonumber(table.remove(ARGV, 1))
local many, pages, remembered, before = tonumber(table.remove(ARGV, 1)), {}, {}, false
for i = 1, many do
  pages[i], remembered[i] = table.remove(ARGV, 1), table.remove(KEYS)
  before = redis.call('GET', remembered[i])
  if before and many > 1 then return redis.error_reply('CONFLICT ' .. pages[i]) end
end
if before == '' then return 0 end
for _, page in ipairs(pages) do
  local age = milliseconds() - moment_of(page)
  if age >= back or -age >= ahead then return redis.error_reply('EXPIRED ' .. page) end
end
-- Whoever was told that it does not fit counts its halves, so that it never fits as a whole.
local told = before and redis.error_reply('OVERFLOW ' .. pages[1]) or added()
if type(told) ~= 'table' then
  for _, key in ipairs(remembered) do redis.call('SET', key, '', 'PX', back + ahead) end
  return 1
end
if many == 1 and told.err and string.find(told.err, '^OVERFLOW') then
  redis.call('SET', remembered[1], 'halved', 'PX', back + ahead)
end
return told
