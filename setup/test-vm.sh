#!/usr/bin/env bash
# Bring up two machines of their own for the tests, run these, and leave nothing: no domain, network,
# volume, process or key. Words given go to pytest instead of the whole folder.
set -euo pipefail
cd "$(dirname "$0")/.."
labs=$PWD/.venv/bin

work=$(mktemp -d)
export LIBVIRT_DEFAULT_URI=qemu:///system
export VAGRANT_HOME=$work/home VAGRANT_DOTFILE_PATH=$work/machines VAGRANT_CHECKPOINT_DISABLE=1
started=$SECONDS

volumes() { virsh -q vol-list default 2>/dev/null | awk '/labs-VAGRANTSLASH-/ {print $1}' | sort; }

leave() {
    vagrant destroy -f || true
    for volume in $(comm -13 <(echo "$before") <(volumes)); do
        virsh -q vol-delete "$volume" default
    done
    if [ -z "$pool" ] && virsh pool-info default >/dev/null 2>&1; then
        virsh -q pool-destroy default && virsh -q pool-undefine default
    fi
    $labs/python -I vagrant/daemons.py stop
    rm -rf "$work"
    echo "tests on virtual machines: $((SECONDS - started)) s"
}

[ -f vagrant/boxes/bookworm-libvirt.json ] || $labs/python vagrant/box.py
$labs/python -I vagrant/daemons.py start
before=$(volumes)
pool=$(virsh -q pool-list --all --name | grep -x default || true)
trap leave EXIT
vagrant up --provider=libvirt
LABS_TEST_VM=1 $labs/pytest "${@:-tests/vm}"
