#!/usr/bin/env bash
# Installs other detectors, as they are published, next to this checkout: .field/.
set -euo pipefail
cd "$(dirname "$0")/../../.."
command -v python3 >/dev/null || { echo "field: python3 is needed; install it" >&2; exit 1; }
[ -x .field/bin/python ] || python3 -m venv .field
.field/bin/pip install --quiet --disable-pip-version-check -r bench/screen/field/requirements.txt
