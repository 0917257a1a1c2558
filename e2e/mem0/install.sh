#!/usr/bin/env bash
# Installs what the Mem0 end-to-end suite runs, into E2E_HOME (default: .e2e at the
# root of the repository, which git ignores). Running it again costs nothing: each
# part is skipped while the file that pins it is unchanged.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${E2E_HOME:-$(cd "$here/../.." && pwd)/.e2e}
mkdir -p "$home"

# Two test binaries may ask for the install at the same time.
exec 9>"$home/mem0-install.lock"
flock 9

current() { [ -f "$1/.pins" ] && [ "$(cat "$1/.pins")" = "$2" ]; }
pins() { cat "$@" | sha256sum | cut -d' ' -f1; }
pip_quiet=(--quiet --no-deps --no-input --disable-pip-version-check --no-compile)

python_pins=$(pins "$here/requirements.txt")
if ! current "$home/mem0-py" "$python_pins"; then
  rm -rf "$home/mem0-py"
  if ! python3 -m venv "$home/mem0-py" 2>/dev/null; then
    # Debian ships venv apart from python3.
    apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
    rm -rf "$home/mem0-py"
    python3 -m venv "$home/mem0-py"
  fi
  "$home/mem0-py/bin/pip" install "${pip_quiet[@]}" -r "$here/requirements.txt"
  echo "$python_pins" >"$home/mem0-py/.pins"
fi

old_pins=$(pins "$here/requirements-v1.txt" "$here/requirements.txt")
if ! current "$home/mem0-py1" "$old_pins"; then
  rm -rf "$home/mem0-py1"
  "$home/mem0-py/bin/pip" install "${pip_quiet[@]}" --target "$home/mem0-py1" -r "$here/requirements-v1.txt"
  echo "$old_pins" >"$home/mem0-py1/.pins"
fi

node_pins=$(pins "$here/sdk/package-lock.json" "$here/sdk/.npmrc")
if ! current "$home/mem0-js" "$node_pins"; then
  rm -rf "$home/mem0-js"
  mkdir -p "$home/mem0-js"
  cp "$here/sdk/package.json" "$here/sdk/package-lock.json" "$here/sdk/.npmrc" "$home/mem0-js/"
  (cd "$home/mem0-js" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
  echo "$node_pins" >"$home/mem0-js/.pins"
fi

echo "mem0 end-to-end parts are in place"
