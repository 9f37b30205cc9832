#!/usr/bin/env bash
# Print the path of a Python that can create the environment: it has venv and pip, and a version that
# pyproject.toml allows (requires-python). If PYTHON names one, only that one is tried.
set -euo pipefail

read -r first next < <(sed -n 's/^requires-python = ">=3\.\([0-9]*\),<3\.\([0-9]*\)"$/\1 \2/p' \
    "$(dirname "$0")/../pyproject.toml") || {
    echo 'pyproject.toml has no requires-python = ">=3.A,<3.B"; write it in this form' >&2
    exit 3
}

suits() {
    "$1" -c '
import sys
import ensurepip, venv  # Debian keeps them in a package of their own
first, next = map(int, sys.argv[1:])
sys.exit(not (3, first) <= sys.version_info < (3, next))' "$first" "$next" 2>/dev/null
}

newest_first=$(seq -f 'python3.%.0f' $((next - 1)) -1 "$first")
for python in ${PYTHON:-python3 $newest_first /usr/bin/python3}; do
    if found=$(command -v "$python") && suits "$found"; then
        echo "$found"
        exit 0
    fi
done
echo "no Python 3.$first to 3.$((next - 1)) with venv was found${PYTHON:+ at $PYTHON}. Install one, or name it: make PYTHON=/path/to/python3.$((next - 1))" >&2
exit 3
