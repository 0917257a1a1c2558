-- KEYS[1]  the release's own key; then one key a line
-- ARGV[1]  amount, ARGV[2] how long to remember the release, ms
if not redis.call('SET', KEYS[1], '1', 'PX', ARGV[2], 'NX') then return 0 end
for i = 2, #KEYS do
  local n = tonumber(redis.call('GET', KEYS[i]) or '0') - tonumber(ARGV[1])
  if n > 0 then
    redis.call('SET', KEYS[i], n, 'KEEPTTL')
  else
    redis.call('DEL', KEYS[i])
  end
end
return 1
