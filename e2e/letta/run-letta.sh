#!/usr/bin/env bash
# Starts Postgres, Redis, the stub model and Letta's server, says so when all of
# them answer, and takes all of them down again when it ends.
#
#   run-letta.sh [--port 18283] [--stub-port 18284] [--data DIR] [--no-redis]
#
# Postgres and Redis listen 10000 below the two, on 8283 and 8284.
# DIR keeps the database: a second start there goes on where the first one ended.
# Env: E2E_HOME (where install.sh put things); what starts with LETTA_ reaches the
# server, such as LETTA_SERVER_SECURE, LETTA_SERVER_PASSWORD or LETTA_BASE_URL.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
port=18283 stub_port=18284 data='' redis=yes

while [ $# -gt 0 ]; do
  case $1 in
    --port) port=$2; shift ;;
    --stub-port) stub_port=$2; shift ;;
    --data) data=$2; shift ;;
    --no-redis) redis='' ;;
    *) echo "run-letta.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
[ -f "$template/.pins" ] || fail "run install.sh first ($template is missing)"

temporary=''
if [ -z "$data" ]; then
  temporary=$(mktemp -d)
  data=$temporary
fi
mkdir -p "$data"
data=$(cd "$data" && pwd)

stop() {
  trap - EXIT INT TERM
  stop_all
  [ -z "$temporary" ] || rm -rf "$temporary"
}
trap stop EXIT
trap 'exit 0' INT TERM

# A server that already sits there would answer the readiness check in our stead.
for wanted in "$stub_port" "$port" $((port - 10000)) ${redis:+$((stub_port - 10000))}; do
  if taken "$wanted"; then fail "port $wanted is taken"; fi
done

[ -d "$data/pg" ] || cp -a "$template/pg" "$data/pg"
rm -f "$data/pg/postmaster.pid"
# Nobody else's, as the two that were asked for are not (internal/freeport).
pg_port=$((port - 10000)) redis_port=''
start_postgres "$data/pg" "$pg_port"
if [ -n "$redis" ]; then
  redis_port=$((stub_port - 10000))
  (exec setpriv --pdeathsig TERM redis-server --port "$redis_port" --bind 127.0.0.1 --save '' \
    --appendonly no --dir "$data" --loglevel warning >"$data/redis.log" 2>&1) & pids+=($!)
fi
stub_url=http://127.0.0.1:$stub_port
url=http://127.0.0.1:$port
python3 "$here/stubmodel.py" --port "$stub_port" & pids+=($!)
letta_environment "$data" "$pg_port" "$stub_url" "$redis_port"
cd "$data"
"$python" "$here/server.py" --port "$port" --stub-url "$OPENAI_BASE_URL" >"$data/server.log" 2>&1 & pids+=($!)

# Bash's own sockets: a bare machine has no curl, and starting a Python per try
# would slow down the very start that is waited for.
answers() (
  exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
  printf 'GET /_e2e/health HTTP/1.0\r\n\r\n' >&3
  read -r -t 2 _ status _ <&3 && [ "$status" = 200 ]
) 2>/dev/null
# Ten minutes: the start is Python importing Letta, which shares the processors with
# whatever else the machine does. A server that ends is reported at once.
for wanted in "$stub_port" "$port"; do
  for _ in $(seq 1 6000); do
    for pid in "${pids[@]}"; do
      kill -0 "$pid" 2>/dev/null || { tail -20 "$data/server.log" >&2; fail "a server ended before it was ready"; }
    done
    answers "$wanted" && continue 2
    sleep 0.1
  done
  tail -20 "$data/server.log" >&2
  fail "port $wanted did not answer in time"
done

echo "LETTA_READY letta=$url stub=$stub_url"
# Ends when any part ends: half a backend is of no use to a test.
wait -n "${pids[@]}" || true
fail "a server ended by itself (see $data/server.log)"
