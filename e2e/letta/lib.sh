# What install.sh and run-letta.sh share: a throw-away Postgres and Letta's
# environment. Sourced, not run.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${E2E_HOME:-$(cd "$here/../.." && pwd)/.e2e}
pg=$home/letta-pg/pgserver/pginstall
python=$home/letta-py/bin/python
template=$home/letta-template
# Everything is on this machine; a proxy of the environment must not step in.
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
# Compiled once, next to the packages: a start takes a third of the time.
export PYTHONPYCACHEPREFIX=$home/pycache
unset PYTHONDONTWRITEBYTECODE

pids=()

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }

# Ends what was started, the server before its database.
stop_all() {
  local number
  for ((number = ${#pids[@]} - 1; number >= 0; number--)); do
    kill "${pids[number]}" 2>/dev/null || continue
    wait "${pids[number]}" 2>/dev/null || true
  done
  pids=()
}

# Postgres refuses to run as root. The kept capability lets the other user into
# directories that only root may enter; a test's data directory often is one.
as_postgres() {
  if [ "$(id -u)" != 0 ]; then
    exec setpriv --pdeathsig TERM "$@"
  fi
  exec setpriv --reuid=65534 --regid=65534 --clear-groups \
    --inh-caps=+dac_override --ambient-caps=+dac_override --pdeathsig TERM "$@"
}

# Below the ports that connections are given, and those that tests are
# (internal/freeport): a server takes seconds before it listens.
free_port() {
  python3 - <<'EOF'
import random, socket
for port in random.sample(range(10000, 12000), 2000):
    try:
        with socket.socket() as s:
            s.bind(("127.0.0.1", port))
        print(port)
        break
    except OSError:
        pass
EOF
}

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# start_postgres DIR PORT: the data is thrown away, so nothing waits for the disk.
start_postgres() {
  as_postgres "$pg/bin/postgres" -D "$1" -p "$2" -h 127.0.0.1 \
    -c unix_socket_directories= -c fsync=off -c synchronous_commit=off \
    -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 \
    -c shared_buffers=64MB -c max_connections=100 -c autovacuum=off \
    -c log_min_messages=fatal >"$(dirname "$1")/postgres.log" 2>&1 </dev/null &
  pids+=($!)
  for _ in $(seq 1 300); do
    "$pg/bin/pg_isready" -q -h 127.0.0.1 -p "$2" -U letta && return
    kill -0 "${pids[-1]}" 2>/dev/null || break
    sleep 0.05
  done
  tail -5 "$(dirname "$1")/postgres.log" >&2
  fail "Postgres did not start"
}

# letta_environment DIR PG_PORT STUB_URL REDIS_PORT
letta_environment() {
  export HOME=$1 XDG_CACHE_HOME=$1/cache
  export LETTA_PG_URI="postgresql://letta:letta@127.0.0.1:$2/letta?sslmode=disable"
  export OPENAI_API_KEY=sk-stub OPENAI_BASE_URL=$3/v1
  export LETTA_KEEPALIVE_INTERVAL=${LETTA_KEEPALIVE_INTERVAL:-1}
  # By default each query opens a connection of its own; now and then one of those
  # is never heard of again and its request fails after a minute.
  export LETTA_DISABLE_SQLALCHEMY_POOLING=false LETTA_PG_POOL_SIZE=20 LETTA_DISABLE_TRACING=true
  export LETTA_TRACK_PROVIDER_TRACE=${LETTA_TRACK_PROVIDER_TRACE:-false}
  unset LETTA_REDIS_HOST LETTA_REDIS_PORT
  if [ -n "${4:-}" ]; then
    export LETTA_REDIS_HOST=127.0.0.1 LETTA_REDIS_PORT=$4
  fi
}
