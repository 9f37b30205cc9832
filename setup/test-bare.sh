#!/usr/bin/env bash
# Follow the README on a machine with nothing installed: create a minimal root of Debian, clone the
# committed tree into it, run `make lab` and `make test` there, and print what these installed, how
# long they took and what they skipped (setup/bare.sh).
#
#     setup/test-bare.sh bookworm root      (or trixie; or user, who may not install packages)
set -euo pipefail
cd "$(dirname "$0")/.."
me=test-bare release=$1 as=$2

[[ $release =~ ^(bookworm|trixie)$ ]] ||
    { echo "$me: RELEASE is '$release'; allowed: bookworm, trixie" >&2; exit 2; }
[[ $as =~ ^(root|user)$ ]] || { echo "$me: AS is '$as'; allowed: root, user" >&2; exit 2; }

# `make lab` or `make test`. A user who is told in one line what to install lets root do so.
run_make() {
    local target=$1 code=0 started=$SECONDS told
    echo "--- make $target, as $user"
    within "$user" "$home" "$home" make -C $TREE "$target" 2>&1 | tee "$work/$target.log" || code=$?
    told=$(sed -n 's/^missing here; as root: //p' "$work/$target.log")
    if [ "$as" = user ] && [ -n "$told" ]; then
        echo "--- as root: $told"
        within root "$admin" / sh -c "$told" 2>&1 | tee "$work/$target-packages.log"
        echo "--- make $target, as $user again"
        code=0
        within "$user" "$home" "$home" make -C $TREE "$target" 2>&1 |
            tee "$work/$target.log" || code=$?
    fi
    echo "make $target: $((SECONDS - started)) s, exit code $code" >>"$work/times"
    return $code
}

inside() {
    set -euo pipefail
    source "$work/settings"
    mount_inside
    run_make lab
    run_make test
}

installed() { chroot "$root" dpkg-query -W -f '${Package}\n' | sort; }

report() {
    local new log=$work/test.log
    [ -f "$work/before" ] || return 0
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

source setup/bare.sh
readarray -t lines < <(sources_of "$release")
create_root "$root" "$release" git,make,ca-certificates "${lines[@]}"
admin=$(chroot "$root" getent passwd root | cut -d: -f6)
user=root home=$admin
if [ "$as" = user ]; then
    user=learner
    chroot "$root" useradd --create-home --shell /bin/bash $user
    home=$(chroot "$root" getent passwd $user | cut -d: -f6)
else
    cp -rT "$root/etc/skel" "$root$admin"
fi
clone_into "$home/$TREE"
chroot "$root" chown -R "$user:$user" "$home"
installed >"$work/before"
chroot "$root" apt-mark showmanual | sort >"$work/manual"
variables=(CI=true)
declare -p settings rights variables >"$work/settings"
echo "a minimal root of $release: $(wc -l <"$work/before") packages, $SECONDS s"

export -f inside run_make within mount_inside
export root work as user home admin TREE
apart bash -c inside
