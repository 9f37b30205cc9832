#!/usr/bin/env bash
# Resolve requirements.lock from pyproject.toml: one version of each package for Python 3.11 to
# 3.14 on every system, each file by its hash. The resolver stays out of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$(setup/which-python.sh)" -m venv "$work"
"$work/bin/python" -m pip --disable-pip-version-check install --quiet "$1"
"$work/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 \
    --fork-strategy fewest --all-extras --generate-hashes --no-annotate \
    --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml
echo "requirements.lock: $(grep -c '==' requirements.lock) packages"
