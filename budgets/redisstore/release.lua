-- KEYS[1]  the release's own key; then one key per line
-- ARGV[1]  amount, ARGV[2] how long to remember the release, ms, ARGV[3] the minute of
-- the charge; then per line 1 for an hour
-- Returns 1, or 0 if the release was made before. Reads and checks before it writes, like
-- charge.lua.
local left = {}
for i = 2, #KEYS do
  local is
  if ARGV[i + 2] == '1' then
    is = redis.call('HGET', KEYS[i], ARGV[3]) or '0'
  else
    is = redis.call('GET', KEYS[i]) or '0'
  end
  if #is > 15 or not string.match(is, '^%d+$') then
    return redis.error_reply('ERR line ' .. (i - 1) .. ' holds no count')
  end
  left[i] = tonumber(is) - tonumber(ARGV[1])
end
if not redis.call('SET', KEYS[1], '1', 'PX', ARGV[2], 'NX') then return 0 end
for i = 2, #KEYS do
  if ARGV[i + 2] == '1' then
    if left[i] > 0 then
      redis.call('HINCRBY', KEYS[i], ARGV[3], -tonumber(ARGV[1]))
    else
      redis.call('HDEL', KEYS[i], ARGV[3])
    end
  elseif left[i] > 0 then
    redis.call('DECRBY', KEYS[i], ARGV[1])
  else
    redis.call('DEL', KEYS[i])
  end
end
return 1
