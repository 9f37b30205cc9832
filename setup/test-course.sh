#!/usr/bin/env bash
# The tests with the real nbgrader and JupyterHub, in .venv-course: the packages of requirements.lock
# and of setup/course/requirements.lock, and the proxy of setup/course/package-lock.json. Words given
# go to pytest instead of the whole folder.
set -euo pipefail
cd "$(dirname "$0")/.."

# The users that the tests add start this Python too, and cannot enter the home folder of root.
readable=${PYTHON:-}
[ -n "$readable" ] || [ ! -x /usr/bin/python3 ] || readable=/usr/bin/python3
wanted=$(cat requirements.lock setup/course/*.lock setup/course/package*.json | sha256sum | cut -d' ' -f1)
stamp=.venv-course/made-from
if [ "$(cat $stamp 2>/dev/null)" != "$wanted" ] || ! .venv-course/bin/python -c '' 2>/dev/null; then
    python=$(PYTHON=$readable setup/which-python.sh)
    echo "making .venv-course with $python"
    rm -rf .venv-course
    "$python" -m venv .venv-course
    pip() { .venv-course/bin/python -m pip --disable-pip-version-check install --quiet "$@"; }
    pip --no-compile --require-hashes --requirement requirements.lock \
        --requirement setup/course/requirements.lock
    pip --no-deps --no-build-isolation --editable .
    cp setup/course/package.json setup/course/package-lock.json .venv-course/
    npm ci --prefix .venv-course --no-fund --no-audit --silent
    install -D -m 644 setup/ipython_kernel_config.py .venv-course/etc/ipython/ipython_kernel_config.py
    echo "$wanted" >$stamp
fi
.venv-course/bin/labs kernel build 6.1
LABS_TEST_COURSE=1 PATH=$PWD/.venv-course/bin:$PWD/.venv-course/node_modules/.bin:$PATH \
    .venv-course/bin/python -m pytest "${@:-tests/course}"
