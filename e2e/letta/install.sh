#!/usr/bin/env bash
# Installs what the Letta end-to-end suite runs, into E2E_HOME (default: .e2e at the
# root of the repository, which git ignores). Running it again costs nothing: each
# part is skipped while the file that pins it is unchanged.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir -p "$home"

# Two test binaries may ask for the install at the same time.
exec 9>"$home/letta-install.lock"
flock 9

current() { [ -f "$1/.pins" ] && [ "$(cat "$1/.pins")" = "$2" ]; }
pins() { cat "$@" | sha256sum | cut -d' ' -f1; }
pip_quiet=(--quiet --no-deps --no-input --disable-pip-version-check --no-compile)

debian() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "install $* and try again"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}
command -v redis-server >/dev/null || debian redis-server
command -v setpriv >/dev/null || debian util-linux

# The server.
server_pins=$(pins "$here/requirements.txt")
if ! current "$home/letta-py" "$server_pins"; then
  rm -rf "$home/letta-py"
  if ! python3 -m venv "$home/letta-py" 2>/dev/null; then
    # Debian ships venv apart from python3.
    debian python3-venv
    rm -rf "$home/letta-py"
    python3 -m venv "$home/letta-py"
  fi
  "$home/letta-py/bin/pip" install "${pip_quiet[@]}" -r "$here/requirements.txt"
  echo "$server_pins" >"$home/letta-py/.pins"
fi

# Postgres with pgvector is data to us, not a Python package: any wheel will do,
# whatever Python runs here.
pg_pins=$(pins "$here/requirements-postgres.txt")
if ! current "$home/letta-pg" "$pg_pins"; then
  rm -rf "$home/letta-pg"
  "$home/letta-py/bin/pip" install "${pip_quiet[@]}" --target "$home/letta-pg" \
    --python-version 3.11 --only-binary=:all: -r "$here/requirements-postgres.txt"
  echo "$pg_pins" >"$home/letta-pg/.pins"
fi

# The clients. The server brings an older Python client along for its own use.
sdk_pins=$(pins "$here/requirements-sdk.txt")
if ! current "$home/letta-sdk" "$sdk_pins"; then
  rm -rf "$home/letta-sdk"
  "$home/letta-py/bin/pip" install "${pip_quiet[@]}" --target "$home/letta-sdk" -r "$here/requirements-sdk.txt"
  echo "$sdk_pins" >"$home/letta-sdk/.pins"
fi

node_pins=$(pins "$here/sdk/package-lock.json" "$here/sdk/.npmrc")
if ! current "$home/letta-js" "$node_pins"; then
  rm -rf "$home/letta-js"
  mkdir -p "$home/letta-js"
  cp "$here/sdk/package.json" "$here/sdk/package-lock.json" "$here/sdk/.npmrc" "$home/letta-js/"
  (cd "$home/letta-js" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
  echo "$node_pins" >"$home/letta-js/.pins"
fi

# A database as the server leaves it after its first start: tables, the default
# organisation and user, the built-in tools. A start copies it.
template_pins=$(pins "$here/requirements.txt" "$here/requirements-postgres.txt" "$here/server.py" "$here/lib.sh" "$here/install.sh")
if ! current "$template" "$template_pins"; then
  rm -rf "$template"
  mkdir -p "$template/pg"
  trap stop_all EXIT
  [ "$(id -u)" != 0 ] || chown 65534:65534 "$template/pg"
  (as_postgres "$pg/bin/initdb" -D "$template/pg" -U letta --auth=trust --encoding=UTF8 \
    --locale=C --no-sync --wal-segsize=1 >"$template/initdb.log" 2>&1) || { tail -5 "$template/initdb.log" >&2; fail "initdb failed"; }
  pg_port=$(free_port) stub_port=$(free_port) port=$(free_port)
  start_postgres "$template/pg" "$pg_port"
  "$pg/bin/createdb" -h 127.0.0.1 -p "$pg_port" -U letta letta
  letta_environment "$template" "$pg_port" "http://127.0.0.1:$stub_port" ""
  python3 "$here/stubmodel.py" --port "$stub_port" & pids+=($!)
  cd "$template"
  "$python" "$here/server.py" --stub-url "$OPENAI_BASE_URL" --create-tables >"$template/tables.log" 2>&1 ||
    { tail -20 "$template/tables.log" >&2; fail "no schema"; }
  "$python" "$here/server.py" --stub-url "$OPENAI_BASE_URL" --port "$port" >"$template/server.log" 2>&1 & pids+=($!)
  for _ in $(seq 1 1200); do
    kill -0 "${pids[-1]}" 2>/dev/null || { tail -20 "$template/server.log" >&2; fail "the server ended"; }
    taken "$port" && break
    sleep 0.1
  done
  kill "${pids[-1]}" && wait "${pids[-1]}" || true
  unset 'pids[-1]'
  # These hold the stub's address and a directory, which differ in each run.
  "$pg/bin/psql" -q -h 127.0.0.1 -p "$pg_port" -U letta -d letta \
    -v ON_ERROR_STOP=1 \
    -c 'DELETE FROM provider_models' -c 'DELETE FROM providers' -c 'DELETE FROM sandbox_configs' -c 'VACUUM ANALYZE'
  stop_all
  trap - EXIT
  echo "$template_pins" >"$template/.pins"
fi

echo "letta end-to-end parts are in place"
