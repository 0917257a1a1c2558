#!/usr/bin/env bash
# Runs one scenario with the interpreter and the packages it needs.
#
#   run.sh ts|py --base URL [--key KEY] [--suffix S] [--with-admin]
#   run.sh pages --base URL --direct URL --suffix S
#   run.sh hitl --base URL --stub URL --out DIR [--check] [case ...]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${E2E_HOME:-$(cd "$here/../../.." && pwd)/.e2e}
# Compiled once, next to the packages: importing the SDK takes half the time.
export E2E_HOME=$home PYTHONPYCACHEPREFIX=$home/pycache
unset PYTHONDONTWRITEBYTECODE
# Everything is on this machine; a proxy of the environment must not step in, and
# neither must the SDK's own variables.
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
unset LETTA_BASE_URL LETTA_API_KEY LETTA_CUSTOM_HEADERS
which=${1:?which scenario}
shift

case $which in
  ts) exec node "$here/scenario.mjs" "$@" ;;
  py) PYTHONPATH=$home/letta-sdk exec "$home/letta-py/bin/python" -W ignore::DeprecationWarning "$here/scenario.py" "$@" ;;
  pages) PYTHONPATH=$home/letta-sdk exec "$home/letta-py/bin/python" -W ignore::DeprecationWarning "$here/pages.py" "$@" ;;
  hitl) exec python3 "$here/hitl.py" "$@" ;;
  *) echo "run.sh: unknown scenario $which" >&2; exit 2 ;;
esac
