#!/usr/bin/env bash
# Make the Python environment in .venv from the lock, if it is not there as the lock has it.
set -euo pipefail
cd "$(dirname "$0")/.."

sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; }
wanted=$(cat requirements.lock pyproject.toml setup/ipython_kernel_config.py | sha256 | cut -d' ' -f1)
stamp=.venv/made-from
if [ "$(cat $stamp 2>/dev/null)" = "$wanted" ] && .venv/bin/python -c '' 2>/dev/null; then
    exit 0
fi

python=$(setup/which-python.sh)
started=$SECONDS
echo "making .venv with $python from requirements.lock"
rm -f $stamp
# An environment whose interpreter has gone cannot be mended.
.venv/bin/python -c '' 2>/dev/null || rm -rf .venv
[ -d .venv ] || "$python" -m venv .venv
pip() { .venv/bin/python -m pip --disable-pip-version-check install --quiet "$@"; }
# Modules are compiled as they are used: a third of the time would go into the many that are not.
pip --no-compile --require-hashes --requirement requirements.lock
pip --no-deps --no-build-isolation --editable .
install -D -m 644 setup/ipython_kernel_config.py .venv/etc/ipython/ipython_kernel_config.py
echo "$wanted" >$stamp
echo "made .venv in $((SECONDS - started)) s"
