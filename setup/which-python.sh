#!/usr/bin/env bash
# Print the path of a Python that can make the environment: 3.11 to 3.13, with venv and pip.
# PYTHON names one, and then only that one will do.
set -euo pipefail

suits() {
    "$1" -c '
import sys
import ensurepip, venv  # Debian keeps them in a package of their own
sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null
}

for python in ${PYTHON:-python3 python3.13 python3.12 python3.11 /usr/bin/python3}; do
    if found=$(command -v "$python") && suits "$found"; then
        echo "$found"
        exit 0
    fi
done
echo "no Python 3.11, 3.12 or 3.13 with venv here${PYTHON:+ as $PYTHON}; install one, or name it: make PYTHON=/path/to/python3.12" >&2
exit 3
