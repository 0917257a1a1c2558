-- KEYS[1]  the charge's own key; then one key per line
-- ARGV[1]  cost, ARGV[2] how long to remember the charge, ms (0: peek, nothing is
-- charged), ARGV[3] the minute
-- ARGV[4]  the first minute in an hour's window; the last is equally far ahead. As much
-- again is kept on both sides for replicas with other clocks
-- then per line: limit (-1: only counted), expiry, ms (0: never), and 1 for an hour, which
-- is a hash of counts by minute
-- Everything is read, and what changes is checked, before anything is written: Redis does
-- not roll back the writes of a script that fails.
-- Returns granted (0/1), fresh (0/1), then per line the count and, for an hour, the minute
-- whose leaving makes room for the charge, or the oldest (0: none).
local call, find, tonumber = redis.call, string.find, tonumber
local cost, now, from = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local span = now - from
local to = now + span
local out, gone, granted = {1, 1}, {}, true
local function count(s)
  return #s <= 15 and find(s, '^%d+$') and tonumber(s)
end
local function freeing(hour, missing)
  local counts, last = {}, 0
  for j = 1, #hour, 2 do
    local minute = tonumber(hour[j])
    if minute >= from and minute <= to then
      counts[#counts + 1] = {minute, tonumber(hour[j + 1])}
    end
  end
  table.sort(counts, function(a, b) return a[1] < b[1] end)
  for _, c in ipairs(counts) do
    last, missing = c[1], missing - c[2]
    if missing <= 0 then break end
  end
  return last
end
for i = 2, #KEYS do
  local a = 3 * i - 1
  local limit, frees, sum, hour = tonumber(ARGV[a]), 0, nil, nil
  if ARGV[a + 2] == '1' then
    hour, sum = call('HGETALL', KEYS[i]), 0
    for j = 1, #hour, 2 do
      local minute, n = hour[j] + 0, hour[j + 1] + 0 -- an error if one is not a number
      if not (n >= 0 and n < 1e15) or minute == now and not count(hour[j + 1]) then
        sum = nil
        break
      elseif minute >= from and minute <= to then
        sum = sum + n
        if frees == 0 or minute < frees then frees = minute end
      elseif minute < from - span or minute > to + span then
        gone[i] = gone[i] or {}
        table.insert(gone[i], hour[j])
      end
    end
  else
    sum = count(call('GET', KEYS[i]) or '0')
  end
  if not sum then
    return redis.error_reply('ERR line ' .. (i - 1) .. ' holds no count')
  end
  if limit >= 0 and sum + cost > limit then
    granted = false
    if hour then frees = freeing(hour, sum + cost - limit) end
  end
  out[2 * i - 1], out[2 * i] = sum, frees
end
if not granted then
  out[1], out[2] = call('EXISTS', KEYS[1]), 0
elseif ARGV[2] == '0' or not call('SET', KEYS[1], '1', 'PX', ARGV[2], 'NX') then
  out[2] = 0
else
  for i = 2, #KEYS do
    local a, n = 3 * i - 1, nil
    if ARGV[a + 2] == '1' then
      if gone[i] then call('HDEL', KEYS[i], unpack(gone[i])) end
      if cost > 0 then
        n = call('HINCRBY', KEYS[i], ARGV[3], ARGV[1])
        if out[2 * i] == 0 then out[2 * i] = now end
        out[2 * i - 1] = out[2 * i - 1] + cost
      end
    else
      n = call('INCRBY', KEYS[i], ARGV[1])
      out[2 * i - 1] = n
    end
    if n == cost and ARGV[a + 1] ~= '0' then call('PEXPIRE', KEYS[i], ARGV[a + 1]) end
  end
end
return out
