-- KEYS[1]  the charge's own key; then one key per line
-- ARGV[1]  cost, ARGV[2] how long to remember the charge, ms (0: peek, nothing is
-- charged), ARGV[3] the minute
-- ARGV[4]  the first minute in an hour's window; the last is equally far ahead. As much
-- again is kept on both sides for replicas with other clocks
-- then per line: limit (-1: only counted), soft (0/1), expiry, ms (0: never), and 1 for an
-- hour, which is a hash of counts by minute
-- Everything is read and checked before anything is written: Redis does not roll back
-- the writes of a script that fails.
-- Returns granted (0/1), fresh (0/1), then per line the count and, for an hour, the minute
-- whose leaving makes room for the charge, or the oldest (0: none).
local cost, now, from = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local fresh = redis.call('EXISTS', KEYS[1]) == 0
local used, frees, gone, granted = {}, {}, {}, 1
local function count(s)
  if #s > 15 or not string.match(s, '^%d+$') then return -1 end
  return tonumber(s)
end
for i = 2, #KEYS do
  local a = 5 + (i - 2) * 4
  local limit = tonumber(ARGV[a])
  local minutes, of, old, sum, frees_at = {}, {}, {}, 0, 0
  if ARGV[a + 3] == '1' then
    local all = redis.call('HGETALL', KEYS[i])
    for j = 1, #all, 2 do
      local minute = count(all[j])
      local n = count(all[j + 1])
      if minute < 0 or n < 0 then
        return redis.error_reply('ERR line ' .. (i - 1) .. ' holds no count')
      elseif math.abs(minute - now) > now - from then
        if math.abs(minute - now) > 2 * (now - from) then old[#old + 1] = all[j] end
      else
        minutes[#minutes + 1] = minute
        of[all[j]] = n
        sum = sum + n
      end
    end
    table.sort(minutes)
  else
    sum = count(redis.call('GET', KEYS[i]) or '0')
    if sum < 0 then
      return redis.error_reply('ERR line ' .. (i - 1) .. ' holds no count')
    end
  end
  local missing = 0
  if ARGV[a + 1] == '0' and limit >= 0 and sum + cost > limit then
    granted = 0
    missing = sum + cost - limit
  end
  for j = 1, #minutes do
    frees_at = minutes[j]
    missing = missing - of[tostring(frees_at)]
    if missing <= 0 then break end
  end
  used[i], frees[i], gone[i] = sum, frees_at, old
end
local out = {granted, 1}
if not fresh then
  out[1], out[2] = 1, 0
elseif ARGV[2] == '0' then
  out[2] = 0
elseif granted == 1 then
  redis.call('SET', KEYS[1], '1', 'PX', ARGV[2])
  for i = 2, #KEYS do
    local a = 5 + (i - 2) * 4
    local keep = tonumber(ARGV[a + 2])
    if ARGV[a + 3] == '1' then
      if #gone[i] > 0 then redis.call('HDEL', KEYS[i], unpack(gone[i])) end
      if cost > 0 then
        redis.call('HINCRBY', KEYS[i], ARGV[3], cost)
        if frees[i] == 0 then frees[i] = now end
      end
      used[i] = used[i] + cost
    else
      used[i] = redis.call('INCRBY', KEYS[i], cost)
    end
    if keep > 0 then redis.call('PEXPIRE', KEYS[i], keep) end
  end
end
for i = 2, #KEYS do
  out[2 * i - 1] = used[i]
  out[2 * i] = frees[i]
end
return out
