#!/usr/bin/env bash
# All tests that can run here. Those on namespaces mostly wait in real time: they and those in a
# browser run beside the others and beside each other, and what they print follows at the end. The
# unit tests are shared out one by one among the CPUs, the virtual tests by file, because their
# fixtures boot kernels. The code is 0 only if all passed.
set -euo pipefail
cd "$(dirname "$0")/.."
pytest=.venv/bin/pytest

# A missing kernel or program ends a worker with a traceback, and this process with one line.
$pytest tests/virtual --collect-only --quiet --quiet >/dev/null
printed=$(mktemp -d)
declare -A beside
set -m      # process groups of their own, so that they can be ended together
for tier in namespaces browser; do
    $pytest "tests/$tier" >"$printed/$tier" 2>&1 &
    beside[$tier]=$!
done
set +m

leave() {
    local code=$?
    kill -INT -- "${beside[@]/#/-}" 2>/dev/null || true
    wait
    rm -rf "$printed"
    exit "$code"
}
trap leave EXIT

$pytest tests/unit --numprocesses auto --dist worksteal
$pytest tests/virtual --numprocesses auto --dist loadfile --no-loadscope-reorder
$pytest tests/vm
code=0
for tier in namespaces browser; do
    echo "the tests in tests/$tier:"
    wait "${beside[$tier]}" || code=$?
    cat "$printed/$tier"
done
exit $code
