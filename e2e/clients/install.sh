#!/usr/bin/env bash
# Installs released clients that need no setting but an address and a key, into
# E2E_HOME (default: .e2e at the root, which git ignores). Each part is skipped
# while the file that pins it is unchanged.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${E2E_HOME:-$(cd "$here/../.." && pwd)/.e2e}
mkdir -p "$home"
exec 9>"$home/clients-install.lock"
flock 9

current() { [ -f "$1/.pins" ] && [ "$(cat "$1/.pins")" = "$2" ]; }
pins() { cat "$@" | sha256sum | cut -d' ' -f1; }

node_pins=$(pins "$here/package-lock.json" "$here/.npmrc")
if ! current "$home/clients-js" "$node_pins"; then
  rm -rf "$home/clients-js"
  mkdir -p "$home/clients-js"
  cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$home/clients-js/"
  (cd "$home/clients-js" && npm ci --ignore-scripts --legacy-peer-deps --loglevel=error >/dev/null)
  echo "$node_pins" >"$home/clients-js/.pins"
fi

python_pins=$(pins "$here/requirements.txt")
if ! current "$home/clients-py" "$python_pins"; then
  rm -rf "$home/clients-py"
  "$home/letta-py/bin/pip" install --quiet --no-deps --no-input --disable-pip-version-check --no-compile \
    --target "$home/clients-py" -r "$here/requirements.txt"
  echo "$python_pins" >"$home/clients-py/.pins"
fi

frameworks_pins=$(pins "$here/requirements-frameworks.txt" "$here/../mem0/requirements.txt")
if ! current "$home/clients-frameworks" "$frameworks_pins"; then
  rm -rf "$home/clients-frameworks"
  "$home/mem0-py/bin/pip" install --quiet --no-deps --no-input --disable-pip-version-check --no-compile \
    --target "$home/clients-frameworks" -r "$here/requirements-frameworks.txt"
  echo "$frameworks_pins" >"$home/clients-frameworks/.pins"
fi

# Clients that need other versions than the backends do, in environments of their own.
for client in letta-evals nemo; do
  client_pins=$(pins "$here/requirements-$client.txt")
  if ! current "$home/clients-$client" "$client_pins"; then
    rm -rf "$home/clients-$client"
    python3 -m venv --without-pip "$home/clients-$client"
    "$home/mem0-py/bin/pip" --python "$home/clients-$client/bin/python" install --quiet --no-deps --no-input \
      --disable-pip-version-check --no-compile -r "$here/requirements-$client.txt"
    echo "$client_pins" >"$home/clients-$client/.pins"
  fi
done
