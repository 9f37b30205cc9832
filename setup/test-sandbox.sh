#!/usr/bin/env bash
# Follow each recipe of docs/where.md in a root of its own, without Docker, and run a study there as
# the recipe's user in a sandbox like that of a public notebook service: Docker's default seccomp
# profile, no capabilities, no new privileges, 64 MiB of /dev/shm without executable files, 2 GiB
# of memory, one CPU. The runs must be identical to the recorded ones. Then the same with ptrace
# denied, and with both ways of booting denied, which must be refused in one line.
#
#     setup/test-sandbox.sh                         all recipes: docker devcontainer binder colab
#     setup/test-sandbox.sh docker                  only these
#     REUSE=1 setup/test-sandbox.sh                 copy this machine's kernel instead of building one
#
# What needs root in a recipe (installing packages) runs as root, and all the rest in the sandbox.
set -euo pipefail
cd "$(dirname "$0")/.."
me=test-sandbox group=''
RECIPES=(docker devcontainer binder colab)
UBUNTU=noble                                    # of Binder's images and of Colab
MEMORY_MIB=2048
TRACING=ptrace,process_vm_readv,process_vm_writev,personality
STUDY=(nagle --only off,on --size full)         # recorded in data/nagle.tar.xz
recipes=("${@:-${RECIPES[@]}}")
for one in "${recipes[@]}"; do
    [[ " ${RECIPES[*]} " == *" $one "* ]] ||
        { echo "$me: unknown recipe '$one'. Allowed: ${RECIPES[*]}" >&2; exit 2; }
done

# --- inside -----------------------------------------------------------------------------------

# Run a command in the sandbox, and print what it took. The first word names it, the second lists
# system calls that are denied beyond Docker's profile.
confined() {
    local what=$1 denied=$2 user=$3 folder=$4 started=$SECONDS code=0 home
    shift 4
    memory_group
    home=$(home_of "$user")
    (
        echo 0 >"$group/cgroup.procs"
        rights=(--bounding-set=-all --inh-caps=-all --no-new-privs)
        within "$user" "$home" "$folder" taskset -c "$cpu" \
            python3 -I -S /opt/docker_profile.py --deny "$denied" "$@"
    ) || code=$?
    echo "$recipe: $what: exit code $code, $((SECONDS - started)) s, peak memory with page cache" \
        "$(($(cat "$group"/memory.{max_usage_in_bytes,peak} 2>/dev/null) >> 20)) MiB" |
        tee -a "$work/results"
    rmdir "$group" || { sleep 1 && rmdir "$group"; }
    return $code
}

# A new group of processes with MEMORY_MIB of memory, in either version of control groups.
memory_group() {
    mkdir "$group"
    if [ -e "$group/memory.limit_in_bytes" ]; then
        echo $((MEMORY_MIB << 20)) >"$group/memory.limit_in_bytes"
    else
        echo $((MEMORY_MIB << 20)) >"$group/memory.max"
    fi
}

home_of() { chroot "$root" getent passwd "$1" | cut -d: -f6; }

as_root() { within root "$(home_of root)" "$@"; }

# Follow the Dockerfile up to its last RUN.
follow_dockerfile() {
    local word rest user=root folder=/
    while read -r word rest; do
        case $word in
        '' | '#'* | FROM | EXPOSE | CMD) ;;
        ARG) variables+=("$rest") ;;
        USER) user=$rest ;;
        WORKDIR) folder=$rest && mkdir -p "$root$folder" ;;
        COPY) [ "$rest" = '. .' ] && clone_into "$folder" ;;
        RUN)
            echo "--- $recipe, as $user: $rest"
            if [ "$user" = root ]; then
                as_root "$folder" sh -c "$rest"
            else
                seed_kernel "$user"
                confined "$rest" '' "$user" "$folder" sh -c "$rest"
            fi
            ;;
        *) fail 2 "Dockerfile: $word cannot be followed here; see setup/test-sandbox.sh" ;;
        esac
    done <Dockerfile
    lab=$folder learner=$user
}

follow_devcontainer() {
    local command
    command=$("$python" -c '
import json, sys
print(json.load(sys.stdin)["postCreateCommand"])' <.devcontainer/devcontainer.json)
    follow_workspace /workspaces/$TREE "$learner" "$command"
}

# Another clone in the same image, as an editor mounts it, and a command of the recipe in it.
follow_workspace() {
    lab=$1 learner=$2
    clone_into "$lab"
    chroot "$root" chown -R "$learner:" "$lab"
    seed_kernel "$learner"
    echo "--- $recipe, as $learner: $3"
    confined "$3" '' "$learner" "$lab" sh -c "$3"
}

follow_binder() {
    chroot "$root" useradd --create-home --uid 1000 jovyan
    install -m 644 binder/apt.txt "$root/opt/"
    as_root / sh -c 'apt-get update -q && DEBIAN_FRONTEND=noninteractive xargs apt-get install \
        -y -q </opt/apt.txt && rm -rf /var/lib/apt/lists/*'
    follow_workspace "$(home_of jovyan)/$TREE" jovyan binder/postBuild
}

# The cell of docs/where.md, from its second line on: the first clones, the last runs a study.
follow_colab() {
    lab=/content/$TREE learner=root
    clone_into "$lab"
    seed_kernel root
    local line
    while read -r line; do
        echo "--- $recipe, as root: $line"
        as_root /content sh -c "$line"
    done < <(sed -n '/^```python$/,/^```$/s/^!//p' docs/where.md | sed '1d;$d')
}

# With REUSE, give a user of the root this machine's kernel.
seed_kernel() {
    local home found
    home=$(home_of "$1")
    [ "${REUSE:-}" = 1 ] && [ ! -d "$root$home/.cache/labs" ] || return 0
    found=$("$python" -c '
from labs.drive.kernel.store import find
from labs.drive.kernel.versions import DEFAULT
print(find(DEFAULT).path.parent)')
    mkdir -p "$root$home/.cache/labs/kernels"
    cp -r "$found" "$root$home/.cache/labs/kernels/"
    chroot "$root" chown -R "$1:" "$home/.cache"
}

# Run the study with some calls denied and further variables, and compare it with the recorded runs; on
# another release, whose tools differ, with runs of the same root outside the sandbox.
study() {
    local denied=$1 home into reference=data/nagle.tar.xz
    shift
    home=$(home_of "$learner")
    into=/tmp/runs-$(wc -l <"$work/results")
    confined "a study${*:+ with $*}${denied:+ with $denied denied}" "$denied" "$learner" "$lab" \
        env "$@" .venv/bin/labs run "${STUDY[@]}" --into "$into" || return
    if [ "$base" != "$release" ]; then
        reference=/tmp/reference
        within "$learner" "$home" "$lab" .venv/bin/labs run "${STUDY[@]}" --into $reference || return
    fi
    within "$learner" "$home" "$lab" .venv/bin/labs runs compare --json --common \
        "$reference" "$into" >"$work/compared" || true
    "$python" -c "$VERDICT" <"$work/compared" |
        sed "s|^|$recipe: compared with $reference: |" | tee -a "$work/results"
}

# Packages are inputs of a run, and this root has the newest ones of its release. Where they are not
# those of the recorded runs, every byte that the tools and kernels wrote must be the same.
VERDICT='
import json, sys
failed = False
pairs = json.load(sys.stdin)["pairs"]
for pair in pairs:
    moved = sorted({change["name"].partition(".")[0] for change in pair["inputs"]})
    raw = sorted(set(pair["files"]) - {"run.json", "seal.json"})
    said = pair["grade"] if raw or not pair["files"] else "every raw file is identical"
    print(pair["condition"], said + (f", with other {chr(44).join(moved)}" if moved else ""), sep=": ")
    failed |= bool(raw)
sys.exit(failed or len(pairs) != 2)'

# With both ways of booting denied, one line says what is denied, and the exit code is 3.
refused() {
    local code=0
    confined 'a study with ptrace and seccomp denied' "$TRACING,seccomp" "$learner" "$lab" \
        .venv/bin/labs run "${STUDY[@]}" --into /tmp/refused >"$work/refused" 2>&1 || code=$?
    grep '^labs: ' "$work/refused" | tee "$work/said"
    [ $code = 3 ] && [ "$(wc -l <"$work/said")" = 1 ] && grep -qi 'ptrace.*seccomp.*Ask' "$work/said"
}

# The command of the image serves JupyterLab: its API answers within a minute.
serves() {
    local words
    words=$("$python" -c '
import json, shlex
line = next(line for line in open("Dockerfile") if line.startswith("CMD "))
print(shlex.join(json.loads(line.removeprefix("CMD "))))')
    unshare --net bash -c "source '$work/settings'; ip link set lo up; confined 'JupyterLab answers' '' $learner $lab sh -c '
        $words & wget -q --tries=60 --retry-connrefused --waitretry=1 -O - http://127.0.0.1:8888/api
        code=\$?; kill \$!; wait; exit \$code'"
}

# Note the outcome of one check; the next ones are made all the same.
check() {
    local outcome=passed
    "$@" || { outcome=FAILED && touch "$work/failed"; }
    echo "$recipe: $*: $outcome" | tee -a "$work/results"
}

inside() {
    set -euo pipefail
    source "$work/settings"
    mount_inside size=64M,noexec
    mount -o remount,ro "$root/sys"
    mount --bind "$root/proc/sys" "$root/proc/sys"
    mount -o remount,bind,ro "$root/proc/sys"
    install -m 644 tests/docker_profile.py "$root/opt/"
    [ "$recipe" != devcontainer ] || source "$work/image"
    "follow_${recipe/docker/dockerfile}"
    [ "$recipe" != docker ] || declare -p lab learner | sed 's/declare --/declare -g/' >"$work/image"
    check study ''
    [ "$recipe" = docker ] || return 0
    check serves
    check study '' LABS_BOOT=ptrace
    check study $TRACING
    check refused
}

# --- outside ----------------------------------------------------------------------------------

report() {
    [ ! -d "$group" ] || rmdir "$group"
    [ ! -f "$work/results" ] || { echo "=== commit ${commit:0:9}" && cat "$work/results"; }
}

source setup/bare.sh
group=/sys/fs/cgroup/memory
[ -d $group ] || group=/sys/fs/cgroup
group+=/${work##*/}
release=$(sed -nE 's/^FROM debian:([a-z]+)-slim$/\1/p' Dockerfile)
cpu=$(taskset -cp $$ | sed -E 's/.*: ([0-9]+).*/\1/')
declare -p settings rights variables >"$work/settings"
export -f inside within mount_inside fail clone_into confined memory_group home_of as_root \
    follow_dockerfile follow_devcontainer follow_workspace follow_binder follow_colab seed_kernel \
    study refused serves check
export me root work group base release TREE MEMORY_MIB TRACING VERDICT python commit cpu recipe
KEYS=/usr/share/keyrings/ubuntu-archive-keyring.gpg
for recipe in "${recipes[@]}"; do
    started=$SECONDS
    case $recipe in
    docker | devcontainer) base=$release ;;
    *) base=$UBUNTU ;;
    esac
    if [ $base = $UBUNTU ] && [ ! -f $KEYS ]; then
        echo "$recipe: $KEYS is missing here, so Debian $release stands in for Ubuntu $UBUNTU" |
            tee -a "$work/results"
        base=$release
    fi
    root=$work/$recipe
    if [ "$recipe" = devcontainer ]; then
        [ -d "$work/docker" ] || fail 2 "devcontainer continues the recipe docker; name both"
        root=$work/docker
    elif [ $base = $UBUNTU ]; then
        create_root "$root" $base apt,ca-certificates,gpgv --components=main,universe
    else
        readarray -t lines < <(sources_of "$base")
        create_root "$root" "$base" ca-certificates "${lines[@]}"
    fi
    echo "$recipe: a minimal root of $base in $((SECONDS - started)) s"
    apart bash -c "STUDY=(${STUDY[*]}); inside"
done
[ ! -e "$work/failed" ]
