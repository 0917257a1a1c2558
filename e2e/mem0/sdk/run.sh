#!/usr/bin/env bash
# Runs one scenario with the interpreter and the packages it needs.
#
#   run.sh v3|v2|py|py1|selfhosted --base URL --key KEY [--suffix S] [...]
#   run.sh pages --base URL --direct URL --key KEY --suffix S
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${E2E_HOME:-$(cd "$here/../../.." && pwd)/.e2e}
# Compiled once, next to the packages: importing the SDK takes half the time.
export E2E_HOME=$home PYTHONPYCACHEPREFIX=$home/pycache
unset PYTHONDONTWRITEBYTECODE
# Everything is on this machine; a proxy of the environment must not step in.
export NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
which=${1:?which scenario}
shift

case $which in
  v3) exec node "$here/scenario_v3.mjs" "$@" ;;
  v2) exec node "$here/scenario_v2.mjs" "$@" ;;
  py) exec "$home/mem0-py/bin/python" "$here/scenario.py" "$@" ;;
  py1) PYTHONPATH=$home/mem0-py1 exec "$home/mem0-py/bin/python" "$here/scenario.py" "$@" ;;
  pages) exec "$home/mem0-py/bin/python" "$here/pages.py" "$@" ;;
  selfhosted) exec "$home/mem0-py/bin/python" "$here/scenario_selfhosted.py" "$@" ;;
  *) echo "run.sh: unknown scenario $which" >&2; exit 2 ;;
esac
