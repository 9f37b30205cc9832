#!/usr/bin/env bash
# All tests that can run here. Those on namespaces mostly wait in real time: with those in a browser
# they run beside the others, and what they print follows at the end. The unit tests are shared out
# one by one among the CPUs, the virtual tests by file, because their fixtures boot kernels. The code
# is 0 only if all passed.
set -euo pipefail
cd "$(dirname "$0")/.."
pytest=.venv/bin/pytest

# A missing kernel or program ends a worker with a traceback, and this process with one line.
$pytest tests/virtual --collect-only --quiet --quiet >/dev/null
printed=$(mktemp)
set -m      # a process group of their own, so that they can be ended together
$pytest tests/namespaces tests/browser >"$printed" 2>&1 &
beside=$!
set +m

leave() {
    local code=$?
    kill -INT -- "-$beside" 2>/dev/null && wait "$beside" || true
    rm -f "$printed"
    exit "$code"
}
trap leave EXIT

$pytest tests/unit --numprocesses auto --dist worksteal
$pytest tests/virtual --numprocesses auto --dist loadfile --no-loadscope-reorder
$pytest tests/vm
echo "the tests on namespaces and in a browser:"
code=0
wait "$beside" || code=$?
cat "$printed"
exit $code
