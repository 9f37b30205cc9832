#!/usr/bin/env bash
# Resolve requirements.lock from pyproject.toml: one version of each package for Python 3.11 to
# 3.14 on every system, each file by its hash. The resolver stays out of .venv. Then resolve what only
# a course needs: setup/course/requirements.lock has the packages that requirements.lock lacks.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$(setup/which-python.sh)" -m venv "$work"
"$work/bin/python" -m pip --disable-pip-version-check install --quiet "$1"
resolve() {
    "$work/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 \
        --fork-strategy fewest --generate-hashes --no-annotate --custom-compile-command "make lock" "$@"
}
resolve --all-extras --output-file requirements.lock pyproject.toml
resolve --constraint requirements.lock --output-file "$work/course.lock" setup/course/requirements.in
# A package is a line with its name, version and marker, and the indented lines of its hashes.
awk 'NR == FNR { have[$0]; next }  /^[a-z0-9]/ { left_out = $0 in have }  !left_out' \
    requirements.lock "$work/course.lock" >setup/course/requirements.lock
for lock in requirements.lock setup/course/requirements.lock; do
    echo "$lock: $(grep -c '==' "$lock") packages"
done
