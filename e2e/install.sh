#!/usr/bin/env bash
# Installs the real parts under $E2E_HOME (default .e2e at the root) and, on
# Debian as root, redis-server, python3 and node if there are none. Idempotent.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

need() { # command, packages
  command -v "$1" >/dev/null && return
  if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "e2e: $1 is needed; install it" >&2
    exit 1
  fi
  shift
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
}
need redis-server redis-server
need python3 python3 python3-venv
need npm nodejs npm
"$here/mem0/install.sh"
"$here/letta/install.sh"
"$here/envoy/install.sh"
