#!/usr/bin/env bash
# Installs the real parts under $E2E_HOME (default .e2e at the root) and, on
# Debian as root, redis-server if there is none. Idempotent.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if ! command -v redis-server >/dev/null; then
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server >/dev/null
  else
    echo "e2e: redis-server is needed; install it" >&2
    exit 1
  fi
fi
"$here/mem0/install.sh"
