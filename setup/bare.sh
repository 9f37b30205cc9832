# A bare machine: a minimal root of a release, in which commands run apart from this machine. Read
# by setup/test-bare.sh and setup/test-sandbox.sh, which set `me` to their name, and define `report`,
# which is called at the end. Package sources, proxies, certificates and pip's settings are this
# machine's own. Everything is removed afterwards; what is left all the same is an error.
#
# KEEP=1 leaves the roots, without their mounts.

fail() { echo "$me: $2" >&2; exit "$1"; }

[ "$(id -u)" = 0 ] || fail 3 "creating a root needs root: sudo make $me"

TREE=tcp-lab-notebook
SETTINGS='^(PIP_.*|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY)$'

# --- inside: in a process and mount namespace of its own, with which everything ends ----------

# Run a command in $root as a user, in a folder, with nothing of this machine's environment but
# SETTINGS, and with the further options of setpriv and env in `rights` and `variables`. The root
# becomes that of a mount namespace: in a chroot the kernel refuses others.
rights=() variables=()
within() {
    local user=$1 home=$2 folder=$3
    shift 3
    unshare --mount sh -c 'cd "$0" && pivot_root . . && umount -l . && cd / && exec "$@"' "$root" \
        setpriv --reuid="$user" --regid="$user" --init-groups "${rights[@]}" \
        env -i "${settings[@]}" HOME="$home" USER="$user" LOGNAME="$user" TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${variables[@]}" \
        env -C "$folder" "$@"
}

# Mount what programs expect in $root; the words are further options of /dev/shm.
mount_inside() {
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t tmpfs -o "mode=1777,nosuid,nodev${1:+,$1}" tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
}

# --- outside ----------------------------------------------------------------------------------

# Run a function of the caller, or a program, in a process and mount namespace of its own, in which
# ^C is not ignored.
namespace=''
apart() {
    set -m
    unshare --mount --pid --fork --kill-child --mount-proc "$@" </dev/null &
    namespace=$!
    set +m
    wait "$namespace"
    namespace=''
}

# Mounts of the roots on this machine itself; there should be none.
mounted() { awk -v work="$work" 'index($5, work) {print "mount", $5}' /proc/self/mountinfo; }

leave() {
    local code=$? left
    trap '' INT TERM
    set +e
    if [ -n "$namespace" ]; then
        # The first process inside takes all others and all mounts with it; unshare waits for that.
        pkill -KILL -P "$namespace" || kill -KILL "$namespace" 2>/dev/null
        wait "$namespace" 2>/dev/null
    fi
    report
    left=$(mounted)
    if [ "${KEEP:-}" = 1 ]; then
        echo "kept: $work"
    else
        rm -rf --one-file-system "$work"
        [ ! -e "$work" ] || left+=" folder $work"
    fi
    echo "$me: $([ "$code" = 0 ] && echo passed || echo failed), $SECONDS s;" \
        "left behind: ${left:-nothing}"
    [ -z "$left" ] || code=1
    exit "$code"
}

python=$(setup/which-python.sh)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/labs-bare-XXXXXX")
root=$work/root
chmod 755 "$work"
commit=$(git rev-parse HEAD)
settings=()
for name in $(compgen -e | grep -E "$SETTINGS" || true); do
    settings+=("$name=${!name}")
done
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Create a minimal root of a release, with these packages (separated by commas) and, of this
# machine, the settings of apt and pip. The words that follow are package sources.
create_root() {
    local root=$1 release=$2 packages=$3
    shift 3
    apt-config dump | grep -E '^Acquire::((https?|ftp)::|Check-Valid-Until )' |
        grep -v Auto-Detect >"$work/apt.conf" || true
    apart mmdebstrap --quiet --mode=root --variant=minbase --format=directory \
        --include="$packages" --aptopt="$work/apt.conf" "$release" "$root" "$@"
    cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" \
        2>/dev/null || true
    chroot "$root" update-ca-certificates >/dev/null 2>&1
    [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
    for file in .config/pip/pip.conf .pip/pip.conf; do
        [ ! -f "$HOME/$file" ] || install -D -m 644 "$HOME/$file" "$root/etc/skel/$file"
    done
}

# The package sources of a release of Debian on this machine's mirrors, a line each.
sources_of() {
    local sources
    sources=$("$python" -c '
import sys
from labs.drive.kernel import kernel_source as archive
for line in archive.sources(sys.argv[1], archive.targets()):
    print("deb", line)' "$1")
    [ -n "$sources" ] || fail 3 "this machine has no package source of Debian; try on one that has"
    echo "$sources"
}

# Clone the committed tree into a folder of $root.
clone_into() {
    git clone --quiet --no-hardlinks . "$root$1"
    git -C "$root$1" checkout --quiet --detach "$commit"
}
