#!/usr/bin/env bash
# Follow the README on a machine with nothing installed: create a minimal root of Debian, clone the
# committed tree into it, run `make lab` and `make test` there, and print what these installed, how
# long they took and what they skipped. Package sources, proxies, certificates and pip's settings
# are this machine's own. Everything is removed afterwards; what is left all the same is an error.
#
#     setup/test-bare.sh bookworm root      (or trixie; or user, who may not install packages)
#
# KEEP=1 leaves the root, without its mounts.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$1 as=$2

fail() { echo "test-bare: $2" >&2; exit "$1"; }
[[ $release =~ ^(bookworm|trixie)$ ]] || fail 2 "RELEASE is '$release'; allowed: bookworm, trixie"
[[ $as =~ ^(root|user)$ ]] || fail 2 "AS is '$as'; allowed: root, user"
[ "$(id -u)" = 0 ] || fail 3 "creating a root needs root: sudo make test-bare"

PACKAGES=git,make,ca-certificates
TREE=tcp-lab-notebook
SETTINGS='^(PIP_.*|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY)$'

# --- inside: in a process and mount namespace of its own, with which everything ends ----------

# Run a command as a user, in the user's home, with nothing of this machine's environment but
# SETTINGS. The root becomes that of a mount namespace: in a chroot the kernel refuses others.
within() {
    local user=$1 home=$2
    shift 2
    unshare --mount sh -c 'cd "$0" && pivot_root . . && umount -l . && cd / && exec "$@"' "$root" \
        setpriv --reuid="$user" --regid="$user" --init-groups env -i "${settings[@]}" CI=true \
        HOME="$home" USER="$user" LOGNAME="$user" TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        sh -c 'cd "$HOME" && exec "$@"' sh "$@"
}

# `make lab` or `make test`. A user who is told in one line what to install lets root do so.
run_make() {
    local target=$1 code=0 started=$SECONDS told
    echo "--- make $target, as $user"
    within "$user" "$home" make -C $TREE "$target" 2>&1 | tee "$work/$target.log" || code=$?
    told=$(sed -n 's/^missing here; as root: //p' "$work/$target.log")
    if [ "$as" = user ] && [ -n "$told" ]; then
        echo "--- as root: $told"
        within root "$admin" sh -c "$told" 2>&1 | tee "$work/$target-packages.log"
        echo "--- make $target, as $user again"
        code=0
        within "$user" "$home" make -C $TREE "$target" 2>&1 | tee "$work/$target.log" || code=$?
    fi
    echo "make $target: $((SECONDS - started)) s, exit code $code" >>"$work/times"
    return $code
}

inside() {
    set -euo pipefail
    source "$work/settings"
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
    run_make lab
    run_make test
}

# --- outside ----------------------------------------------------------------------------------

# Run a command in a process and mount namespace of its own, in which ^C is not ignored.
namespace=''
apart() {
    set -m
    unshare --mount --pid --fork --kill-child --mount-proc "$@" </dev/null &
    namespace=$!
    set +m
    wait "$namespace"
    namespace=''
}

# Mounts of the root on this machine itself; there should be none.
mounted() { awk -v work="$work" 'index($5, work) {print "mount", $5}' /proc/self/mountinfo; }

installed() { chroot "$root" dpkg-query -W -f '${Package}\n' | sort; }

report() {
    local new log=$work/test.log
    new=$(comm -13 "$work/before" <(installed))
    echo "=== $release as $as, commit ${commit:0:9}"
    echo "installed by name: $(chroot "$root" apt-mark showmanual | sort |
        comm -13 "$work/manual" - | xargs)"
    # shellcheck disable=SC2086  # a list of words
    echo "installed in all: $(wc -w <<<"$new") packages, $(chroot "$root" \
        dpkg-query -W -f '${Installed-Size}\n' ${new:-none} 2>/dev/null |
        awk '{kib += $1} END {print int(kib / 1024)}') MiB"
    cat "$work/times" 2>/dev/null || true
    [ -f "$log" ] || return 0
    grep -E '^(unit|virtual|namespaces|vm): ' "$log" || true
    grep -E '^(SKIPPED|FAILED|ERROR) ' "$log" || true
    grep -E '^=+ .*(passed|failed|error).* in .*=+$' "$log" | tr -d = || true
}

leave() {
    local code=$? left
    trap '' INT TERM
    set +e
    if [ -n "$namespace" ]; then
        # The first process inside takes all others and all mounts with it; unshare waits for that.
        pkill -KILL -P "$namespace" || kill -KILL "$namespace" 2>/dev/null
        wait "$namespace" 2>/dev/null
    fi
    [ ! -f "$work/before" ] || report
    left=$(mounted)
    if [ "${KEEP:-}" = 1 ]; then
        echo "kept: $root"
    else
        rm -rf --one-file-system "$work"
        [ ! -e "$work" ] || left+=" folder $work"
    fi
    echo "a bare machine, $release as $as: $([ "$code" = 0 ] && echo passed || echo failed)," \
        "$SECONDS s; left behind: ${left:-nothing}"
    [ -z "$left" ] || code=1
    exit "$code"
}

python=$(setup/which-python.sh)
sources=$("$python" -c '
import sys
from labs.drive.kernel import kernel_source as archive
for line in archive.sources(sys.argv[1], archive.targets()):
    print("deb", line)' "$release")
[ -n "$sources" ] || fail 3 "this machine has no package source of Debian; try on one that has"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/labs-bare-XXXXXX")
root=$work/root
chmod 755 "$work"
commit=$(git rev-parse HEAD)
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

apt-config dump | grep -E '^Acquire::((https?|ftp)::|Check-Valid-Until )' | grep -v Auto-Detect >"$work/apt.conf" || true
readarray -t lines <<<"$sources"
apart mmdebstrap --quiet --mode=root --variant=minbase --format=directory --include=$PACKAGES \
    --aptopt="$work/apt.conf" "$release" "$root" "${lines[@]}"
cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null ||
    true
chroot "$root" update-ca-certificates >/dev/null 2>&1
admin=$(chroot "$root" getent passwd root | cut -d: -f6)
user=root home=$admin
if [ "$as" = user ]; then
    user=learner
    chroot "$root" useradd --create-home --shell /bin/bash $user
    home=$(chroot "$root" getent passwd $user | cut -d: -f6)
fi
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
for file in .config/pip/pip.conf .pip/pip.conf; do
    [ ! -f "$HOME/$file" ] || install -D -m 644 "$HOME/$file" "$root$home/$file"
done
git clone --quiet --no-hardlinks . "$root$home/$TREE"
git -C "$root$home/$TREE" checkout --quiet --detach "$commit"
chroot "$root" chown -R "$user:$user" "$home"
installed >"$work/before"
chroot "$root" apt-mark showmanual | sort >"$work/manual"
settings=()
for name in $(compgen -e | grep -E "$SETTINGS" || true); do
    settings+=("$name=${!name}")
done
declare -p settings >"$work/settings"
echo "a minimal root of $release: $(wc -l <"$work/before") packages, $SECONDS s"

export -f inside run_make within
export root work as user home admin TREE
apart bash -c inside
