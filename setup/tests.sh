#!/usr/bin/env bash
# All tests that can run here. Those on namespaces mostly wait in real time: they run beside the
# others, and what they print follows at the end. The others are shared out by file among the CPUs,
# because the tests of a file share runs, pages and browsers. The code is 0 only if all passed.
set -euo pipefail
cd "$(dirname "$0")/.."
pytest=.venv/bin/pytest

# A run is two dozen small files in folders of their own, which some disks take ten times as long to
# make as memory does. So temporary files go there, where it has room and may hold programs.
memory=/dev/shm temporary=
if [ -z "${TMPDIR:-}" ] && options=$(findmnt --noheadings --output OPTIONS "$memory") &&
    [[ ,$options, != *,noexec,* ]] &&
    [ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -ge $((8 << 20)) ] &&
    [ "$(df --output=avail "$memory" | tail -n 1)" -ge $((6 << 20)) ]; then
    temporary=$(mktemp -d "$memory/labs-XXXX")
    export TMPDIR=$temporary
fi

# A missing kernel or program ends a worker with a traceback, and this process with one line.
$pytest tests/virtual --collect-only --quiet --quiet >/dev/null
printed=$(mktemp)
set -m      # a process group of their own, so that they can be ended together
$pytest tests/namespaces tests/vm >"$printed" 2>&1 &
beside=$!
set +m

leave() {
    local code=$?
    kill -INT -- "-$beside" 2>/dev/null && wait "$beside" || true
    rm -f "$printed"
    [ -z "$temporary" ] || rm -rf --one-file-system "$temporary" || true
    exit "$code"
}
trap leave EXIT

code=0
$pytest tests/unit tests/virtual tests/browser \
    --numprocesses auto --dist loadfile --no-loadscope-reorder || code=$?
echo "the tests on namespaces and on virtual machines:"
wait "$beside" || code=$?
cat "$printed"
exit $code
