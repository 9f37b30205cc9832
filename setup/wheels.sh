#!/usr/bin/env bash
# The wheels for all systems, compiled on this machine with zig: dist/*.whl.
set -euo pipefail
cd "$(dirname "$0")/.."

zig=build/zig
[ -d $zig/ziglang ] ||
    .venv/bin/python -m pip --disable-pip-version-check install --quiet --target $zig ziglang==0.17.1
for target in linux-x86_64 linux-arm64 darwin-x86_64 darwin-arm64 win32-x86_64; do
    LABS_TARGET=$target PYTHONPATH=$zig .venv/bin/python -m hatchling build -t wheel
done
