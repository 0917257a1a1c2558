-- KEYS[1]  the charge's own key; then one key a line
-- ARGV[1]  cost, ARGV[2] how long to remember the charge, ms
-- then per line: limit (-1: only counted), soft (0/1), how long to keep, ms (0: for ever)
-- Everything is read and checked before anything is written: Redis does not
-- take back what a script wrote before it failed.
-- Returns granted (0/1), fresh (0/1), then the count of each line.
local cost = tonumber(ARGV[1])
local fresh = redis.call('EXISTS', KEYS[1]) == 0
local used, granted = {}, 1
for i = 2, #KEYS do
  local a = 3 + (i - 2) * 3
  local is = redis.call('GET', KEYS[i]) or '0'
  if #is > 15 or not string.match(is, '^%d+$') then
    return redis.error_reply('ERR line ' .. (i - 1) .. ' holds no count')
  end
  used[i - 1] = tonumber(is)
  if ARGV[a + 1] == '0' and tonumber(ARGV[a]) >= 0 and used[i - 1] + cost > tonumber(ARGV[a]) then
    granted = 0
  end
end
local out = {granted, 1}
if not fresh then
  out[1], out[2] = 1, 0
elseif granted == 1 then
  redis.call('SET', KEYS[1], '1', 'PX', ARGV[2])
  for i = 2, #KEYS do
    local keep = tonumber(ARGV[5 + (i - 2) * 3])
    used[i - 1] = redis.call('INCRBY', KEYS[i], cost)
    if keep > 0 then redis.call('PEXPIRE', KEYS[i], keep) end
  end
end
for i = 1, #used do out[i + 2] = used[i] end
return out
