#!/usr/bin/env bash
# Bring up two machines of their own for the tests, run these, and leave nothing: no domain, network,
# volume, process or key; what is left all the same is told and is a failure. Words given go to
# pytest instead of the whole folder.
set -euo pipefail
cd "$(dirname "$0")/.."
labs=$PWD/.venv/bin

work=$(mktemp -d)
export LIBVIRT_DEFAULT_URI=qemu:///system
export VAGRANT_HOME=$work/home VAGRANT_DOTFILE_PATH=$work/machines VAGRANT_CHECKPOINT_DISABLE=1
started=$SECONDS

# What libvirt holds, a line each.
held() {
    { virsh -q list --all --name || echo "that cannot be told of"; } | sed -n 's/./domain &/p'
    virsh -q net-list --all --name | sed -n 's/./network &/p'
    { virsh -q vol-list default 2>/dev/null || true; } | awk '{print "volume", $1}'
}

# Programs that machines, or Vagrant, may leave running.
programs() {
    ps -eo pid=,comm=,args= | awk '$2 ~ /^(qemu-system|libvirtd|virtlogd|dnsmasq)/'
    pgrep -af "$work" || true
}

new() { comm -13 <(sort <<<"$1") <("$2" | sort); }

leave() {
    local code=$? left volume
    set +e
    vagrant destroy -f
    $labs/python -I vagrant/daemons.py start        # they end with the last machine
    for volume in $(new "$before" held | awk '/^volume labs-VAGRANTSLASH-/ {print $2}'); do
        virsh -q vol-delete "$volume" default
    done
    if [ -z "$pool" ] && virsh pool-info default >/dev/null 2>&1; then
        virsh -q pool-destroy default && virsh -q pool-undefine default
    fi
    left=$(new "$before" held)
    $labs/python -I vagrant/daemons.py stop
    rm -rf "$work"
    left+=$(new "$running" programs)
    echo "tests on virtual machines: $((SECONDS - started)) s; left behind: ${left:-nothing}"
    [ -z "$left" ] || code=1
    exit "$code"
}

$labs/labs kernel build 6.1
[ -f vagrant/boxes/bookworm-libvirt.json ] || $labs/python vagrant/box.py
running=$(programs)
before='' pool=default
trap leave EXIT
$labs/python -I vagrant/daemons.py start
before=$(held)
pool=$(virsh -q pool-list --all --name | grep -x default || true)
vagrant up --provider=libvirt
LABS_TEST_VM=1 $labs/pytest "${@:-tests/vm}"
