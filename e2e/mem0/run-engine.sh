#!/usr/bin/env bash
# Starts the stub model and the Mem0 engine, says so when both answer, and takes
# both down again when it ends.
#
#   run-engine.sh [--engine-port 18888] [--stub-port 18889] [--data DIR] [--public-url URL]
#
# Env: E2E_HOME (where install.sh put things), ADMIN_API_KEY (default e2e-admin-key).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${E2E_HOME:-$(cd "$here/../.." && pwd)/.e2e}
# Compiled once, next to the packages: a start takes half the time.
export PYTHONPYCACHEPREFIX=$home/pycache
unset PYTHONDONTWRITEBYTECODE
export ADMIN_API_KEY=${ADMIN_API_KEY:-e2e-admin-key}
engine_port=18888 stub_port=18889 data='' public_url=''

while [ $# -gt 0 ]; do
  case $1 in
    --engine-port) engine_port=$2 ;;
    --stub-port) stub_port=$2 ;;
    --data) data=$2 ;;
    --public-url) public_url=$2 ;;
    *) echo "run-engine.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done

python=$home/mem0-py/bin/python
[ -x "$python" ] || { echo "run-engine.sh: run install.sh first ($python is missing)" >&2; exit 1; }

temporary=''
if [ -z "$data" ]; then
  temporary=$(mktemp -d)
  data=$temporary
fi
pids=()
stop() {
  trap - EXIT INT TERM
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  [ -z "$temporary" ] || rm -rf "$temporary"
}
trap stop EXIT
trap 'exit 0' INT TERM

# A server that already sits there would answer the readiness check in our stead.
for port in "$stub_port" "$engine_port"; do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "run-engine.sh: port $port is taken" >&2
    exit 1
  fi
done

cd "$here"
stub_url=http://127.0.0.1:$stub_port
engine_url=http://127.0.0.1:$engine_port
"$python" stubmodel.py --port "$stub_port" & pids+=($!)
"$python" -m engine --port "$engine_port" --stub-url "$stub_url" \
  --data-dir "$data" ${public_url:+--public-url "$public_url"} & pids+=($!)

# Bash's own sockets: a bare machine has no curl, and starting a Python per try
# would slow down the very start that is waited for.
answers() (
  exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
  printf 'GET /_e2e/health HTTP/1.0\r\n\r\n' >&3
  read -r -t 2 _ status _ <&3 && [ "$status" = 200 ]
) 2>/dev/null
for port in "$stub_port" "$engine_port"; do
  for _ in $(seq 1 600); do
    for pid in "${pids[@]}"; do
      kill -0 "$pid" 2>/dev/null || { echo "run-engine.sh: a server ended before it was ready" >&2; exit 1; }
    done
    answers "$port" && continue 2
    sleep 0.1
  done
  echo "run-engine.sh: port $port did not answer in time" >&2
  exit 1
done

echo "MEM0_ENGINE_READY engine=$engine_url stub=$stub_url"
# Ends when either server ends: half a backend is of no use to a test.
wait -n "${pids[@]}"
echo "run-engine.sh: a server ended by itself" >&2
exit 1
