#!/usr/bin/env bash
# The first notebook as two reports: from recorded runs at once, then live on a kernel built here.
set -euo pipefail
cd "$(dirname "$0")/.."

labs=.venv/bin/labs
notebook=notebooks/00-start-here.ipynb
recorded=reports/00-start-here-recorded.html
live=reports/00-start-here.html

echo "the report from recorded runs:"
$labs publish $notebook --set TESTBED=recorded --out $recorded
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "live runs need Linux on x86-64; open $PWD/$recorded"
    exit 0
fi
echo "the kernel (built once, which takes some minutes):"
$labs kernel build
echo "the report from runs made now:"
$labs publish $notebook --out $live
echo
echo "Open $PWD/$live in a browser (recorded: $PWD/$recorded)."
echo "The notebook itself: .venv/bin/jupyter lab $notebook"
