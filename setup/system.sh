#!/usr/bin/env bash
# Install the system packages that are not here yet; say and change nothing if all are.
#
#     setup/system.sh           what the labs and the building of a kernel need
#     setup/system.sh test      and what only the tests use
#     setup/system.sh benchmark and what the reader of captures is timed beside
#     setup/system.sh course    and what tests with nbgrader and JupyterHub need
#     setup/system.sh vm        and what virtual machines and the building of their boxes need
#     setup/system.sh bare      only what tests on a bare machine (setup/test-bare.sh) need
#
# With apt-get and root (or sudo) it installs them; else it says in one line what to install.
set -euo pipefail
cd "$(dirname "$0")"
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin      # an ordinary user's PATH may lack them

# A file or program that is used, and the Debian package that brings it.
NEEDED="
/usr/bin/python3        python3
ip                      iproute2
ss                      iproute2
tc                      iproute2
mount                   mount
setpriv                 util-linux
taskset                 util-linux
nginx                   nginx
wget                    wget
httping                 httping
ab                      apache2-utils
wrk                     wrk
nft                     nftables
iperf3                  iperf3
tcpdump                 tcpdump
ethtool                 ethtool
gcc                     gcc
/usr/include/stdio.h    libc6-dev
ld                      binutils
make                    make
flex                    flex
bison                   bison
bc                      bc
xz                      xz-utils
patch                   patch
"
# Kernels are built from Debian's sources. On its relatives, such as Ubuntu, these packages name a
# mirror of Debian and bring the keys that sign it.
FOR_RELATIVES="
/usr/sbin/debootstrap   debootstrap
/usr/share/keyrings/debian-archive-keyring.gpg  debian-archive-keyring
"
if command -v apt-get >/dev/null && ! grep -qx 'ID=debian' /etc/os-release; then
    NEEDED+=$FOR_RELATIVES
fi

FOR_TESTS="
sshd                    openssh-server
ssh                     openssh-client
nsenter                 util-linux
unshare                 util-linux
strace                  strace
tshark                  tshark
vagrant                 vagrant
chromium                chromium
"
[ "${1:-}" != test ] || NEEDED+=$FOR_TESTS

FOR_COURSE="
npm                     npm
useradd                 passwd
"
[ "${1:-}" != course ] || NEEDED+=$FOR_COURSE

FOR_BENCHMARKS="
tshark                  tshark
tcptrace                tcptrace
"
[ "${1:-}" != benchmark ] || NEEDED+=$FOR_BENCHMARKS

FOR_MACHINES="
vagrant                 vagrant
virsh                   libvirt-clients
libvirtd                libvirt-daemon-system
qemu-system-x86_64      qemu-system-x86
qemu-img                qemu-utils
mmdebstrap              mmdebstrap
syslinux                syslinux
/usr/lib/syslinux/mbr/mbr.bin   syslinux-common
mcopy                   mtools
mkfs.fat                dosfstools
mke2fs                  e2fsprogs
sfdisk                  fdisk
ssh                     openssh-client
"
[ "${1:-}" != vm ] || NEEDED+=$FOR_MACHINES

FOR_BARE="
/usr/bin/python3        python3
git                     git
mmdebstrap              mmdebstrap
unshare                 util-linux
"
[ "${1:-}" != bare ] || NEEDED=$FOR_BARE

missing_packages() {
    while read -r thing package; do
        [ -z "$thing" ] || command -v "$thing" >/dev/null || [ -e "$thing" ] || echo "$package"
    done <<<"$NEEDED"
    # Vagrant finds it by itself, wherever its plugins are.
    [ "${1:-}" != vm ] || vagrant plugin list 2>/dev/null | grep vagrant-libvirt >/dev/null ||
        echo vagrant-libvirt
    # Whatever Python is chosen, Debian's own is offered when none will do.
    [ -n "${PYTHON:-}" ] || ./which-python.sh >/dev/null 2>&1 || echo python3-venv
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

may_be_root() {
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }
}

# Lists are there, and not older than a day: older ones name packages that archives have dropped.
lists_are_fresh() {
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null &&
        [ -n "$(find /var/lib/apt/lists -maxdepth 0 -mtime -1)" ]
}

# nginx and sshd would start and listen as soon as they are installed; here only runs and tests
# start them, for themselves.
services=()
install() {
    if [ -d /run/systemd/system ]; then
        [[ " $* " != *" nginx "* ]] || services+=(nginx.service)
        [[ " $* " != *" openssh-server "* ]] || services+=(ssh.service)
    fi
    # Also if the packages cannot be had, nothing may stay masked.
    trap 'unmask "${services[@]}"' EXIT
    [ ${#services[@]} = 0 ] || as_root systemctl --quiet mask "${services[@]}"
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -q --no-install-recommends "$@"
}

unmask() {
    [ $# -gt 0 ] || return 0
    as_root systemctl --quiet unmask "$@"
    as_root systemctl --quiet disable "$@" 2>/dev/null || true
}

kernel_is_built() {
    [ -n "${LABS_KERNELS:-}" ] ||
        compgen -G "${XDG_CACHE_HOME:-${HOME:-/}/.cache}/labs/kernels/*/linux" >/dev/null
}

if [ "$(uname -sm)" != "Linux x86_64" ]; then
    exit 0                                      # recorded runs need nothing but Python
fi
packages=$(missing_packages "${1:-}" | sort -u | xargs)
if [ -n "$packages" ] && ! command -v apt-get >/dev/null; then
    echo "missing here, under the names that Debian gives them: $packages; install them with this machine's package manager" >&2
    exit 3
fi
if [ -n "$packages" ] && ! may_be_root; then
    echo "missing here; as root: apt-get update && apt-get install -y --no-install-recommends $packages" >&2
    exit 3
fi
# The lists matter for what is installed now, and for the source of a kernel that is to be built.
if { [ -n "$packages" ] || ! kernel_is_built; } &&
    command -v apt-get >/dev/null && ! lists_are_fresh && may_be_root; then
    as_root apt-get update -q
fi
if [ -n "$packages" ]; then
    echo "installing: $packages"
    # shellcheck disable=SC2086  # a list of words
    install $packages
fi
