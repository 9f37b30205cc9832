#!/usr/bin/env bash
# Build the kernels that the tests boot. Where one cannot be built its tests are skipped, with the
# reason. With CI set, a kernel whose sources can be had must build.
set -euo pipefail
cd "$(dirname "$0")/.."

labs=.venv/bin/labs
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    exit 0
fi
for series in $(.venv/bin/python -c 'from labs.drive.kernel.versions import SERIES; print(*SERIES)'); do
    code=0
    $labs kernel build "$series" || code=$?
    if [ $code != 0 ] && [ -n "${CI:-}" ] && $labs kernel build "$series" --dry-run >/dev/null 2>&1
    then
        echo "kernels: Linux $series was not built though its sources can be had; with CI set that is an error" >&2
        exit $code
    fi
done
