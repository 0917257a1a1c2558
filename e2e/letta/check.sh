#!/usr/bin/env bash
# Proves that these parts still do what was recorded: on a server of its own, each
# SDK scenario prints the same lines twice, and every recording comes out the same.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
work=$(mktemp -d)
port=$(free_port) stub_port=$(free_port)
stop() {
  trap - EXIT INT TERM
  stop_all
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM

"$here/run-letta.sh" --port "$port" --stub-port "$stub_port" --data "$work/data" >"$work/ready" & pids+=($!)
until grep -q LETTA_READY "$work/ready"; do
  kill -0 "${pids[-1]}" 2>/dev/null || fail "the server did not start"
  sleep 0.1
done
base=http://127.0.0.1:$port stub=http://127.0.0.1:$stub_port
failed=0
for scenario in ts py; do
  for number in 1 2; do
    "$here/sdk/run.sh" "$scenario" --base "$base" --suffix "sfx${scenario}00$number" --with-admin >"$work/$scenario$number" ||
      { tail -1 "$work/$scenario$number" >&2; failed=1; }
  done
  diff "$work/${scenario}1" "$work/${scenario}2" >&2 || failed=1
done
"$here/sdk/run.sh" hitl --base "$base" --stub "$stub" --out "$here/recordings" --check || failed=1
exit $failed
