"""Booting: what is writable inside, where it works, how it ends, and what is left of it."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labs.drive.kernel import boot as booting
from labs.drive.kernel import store
from labs.drive.kernel.boot import LEFTOVER, boot
from labs.drive.kernel.elf import addresses
from labs.drive.kernel.watchdog import CLOCK, COUNTS, Gauges, Limits, Reading
from labs.drive.programs.init import INSIDE_BOOT, INSIDE_CODE, INSIDE_RUN
from labs.errors import Missing, RunFailed
from labs.launch.inventory import python
from tests.conftest import DEFAULT_KERNEL
from tests.virtual.roots import root_with

ROOT = Path(__file__).resolve().parents[2]
BOOT_ONE = Path(__file__).with_name("boot_one.py")
MEMORY_MIB = 256
UNLISTED = 54321
# What the patches of a series must do is tested on each.
ON_EACH_KERNEL = pytest.mark.parametrize(
    "kernel",
    [
        DEFAULT_KERNEL,
        *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")),
    ],
    indirect=True,
)


@pytest.fixture(scope="module")
def kernel(request: pytest.FixtureRequest) -> Path:
    """The default kernel, or the one with which a test is parametrized."""
    return store.find(getattr(request, "param", DEFAULT_KERNEL)).path


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for the guests' memory that is this test's own."""
    folder = tmp_path / "guests"
    folder.mkdir()
    monkeypatch.setenv("LABS_MEMORY_DIR", str(folder))
    return folder


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    folder = tmp_path / "staging"
    folder.mkdir()
    return folder


def inside(kernel: Path, staging: Path, script: str, **more: object) -> list[str]:
    """Boot, run a script with bash, return the lines of the console."""
    lines: list[str] = []
    given = {"memory_mib": MEMORY_MIB, "on_line": lines.append, "code": ROOT, **more}
    given.setdefault("root", root_with("od", "grep", "yes"))
    boot(kernel, staging=staging, argv=("/bin/bash", "-c", script), **given)  # type: ignore[arg-type]
    return lines


def processes(memory: Path) -> list[int]:
    """The processes of kernels whose memory is in this folder."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.readlink(path / "cwd").startswith(str(memory)):
                    found.append(int(path.name))
    return found


def until(true: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError(what)


# --- what is inside ----------------------------------------------------------------------


@pytest.fixture
def canaries() -> Iterator[list[Path]]:
    """Files of this machine that are none of a guest's: in the home folder and in another."""
    folders = [
        Path(tempfile.mkdtemp(prefix="labs-canary-", dir=where))
        for where in (Path.home(), Path("/var/tmp"))
    ]
    found = [folder / "canary" for folder in folders]
    for canary in found:
        canary.write_text("sings\n")
    try:
        yield found
    finally:
        for folder in folders:
            shutil.rmtree(folder)


def test_boot_shows_nothing_of_this_machine_and_lets_only_staging_be_written(
    kernel: Path, memory: Path, staging: Path, canaries: list[Path]
) -> None:
    lines = inside(
        kernel,
        staging,
        "".join(f"cat {one}; ls {one.parent}; " for one in canaries)
        + f"""
        ls /home /opt /usr/share /usr/local
        for one in /new {INSIDE_CODE}/new {INSIDE_BOOT}/argv; do echo x >$one; done
        rm {INSIDE_CODE}/README.md /usr/bin/ip
        for made in /run /tmp /var/log {INSIDE_RUN}; do echo kept >$made/labs-made; done
        pwd; cat /tmp/labs-made; cat /proc/mounts >mounts""",
    )
    assert "sings" not in lines and ROOT.joinpath("README.md").exists()
    hidden = [*canaries, *("/home", "/opt", "/usr/share", "/usr/local")]
    for what in (str(one) for one in hidden):
        assert any(what in line and "No such file or directory" in line for line in lines), what
    for what in ("/new", f"{INSIDE_CODE}/new", INSIDE_BOOT, "README.md", "/usr/bin/ip"):
        assert any(what in line and "Read-only file system" in line for line in lines), what
    assert INSIDE_RUN in lines and "kept" in lines
    assert sorted(path.name for path in staging.iterdir()) == ["labs-made", "mounts"]
    assert not any(Path(folder, "labs-made").exists() for folder in ("/run", "/tmp", "/var/log"))
    mounts = [line.split() for line in (staging / "mounts").read_text().splitlines()]
    of_the_host = {
        where: options.split(",")[0] for _, where, kind, options, *_ in mounts if kind == "hostfs"
    }
    assert of_the_host == {"/": "ro", INSIDE_BOOT: "ro", INSIDE_RUN: "rw", INSIDE_CODE: "ro"}


@ON_EACH_KERNEL
@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t hostfs none /tmp/more",
        "mount -t hostfs none /tmp/more -o {canary}",
        "umount -l {code}; mount -t hostfs none /tmp/more -o {canary}",
        "mount -o remount,rw none /",
        "mount -o remount,rw none {code}",
        "mount -o remount,rw none {boot}",
    ],
)
def test_boot_lets_root_inside_open_no_more_of_this_machine(
    kernel: Path, memory: Path, staging: Path, canaries: list[Path], attempt: str
) -> None:
    words = attempt.format(canary=canaries[0].parent, code=INSIDE_CODE, boot=INSIDE_BOOT)
    lines = inside(
        kernel,
        staging,
        f"mkdir /tmp/more; {words}; echo it ended with $?; ls /tmp/more | wc -l;"
        f" echo x >/new; echo x >{INSIDE_CODE}/new; echo x >{INSIDE_BOOT}/new; true",
        root=root_with("wc"),
    )
    assert "it ended with 32" in lines and "0" in lines  # mount(8): mount failure
    assert not list(canaries[0].parent.glob("new")) and not (ROOT / "new").exists()


def test_boot_gives_a_constant_environment_and_the_words(
    kernel: Path, memory: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABS_TEST_STRAY", "1")
    words = ("", "two words", "$HOME", "a\nb", "grüße", "'")
    boot(
        kernel,
        root=root_with(),
        staging=staging,
        code=ROOT,
        memory_mib=MEMORY_MIB,
        argv=("/bin/bash", "-c", 'env >env; printf "%s\\0" "$@" >words', *("bash", *words)),
    )
    assert (staging / "words").read_bytes().split(b"\0")[:-1] == [word.encode() for word in words]
    known = dict(line.split("=", 1) for line in (staging / "env").read_text().splitlines())
    for name in ("PWD", "SHLVL", "_", "TERM", "OLDPWD"):  # the shell's own
        known.pop(name, None)
    assert known == {
        "HOME": "/tmp",
        "PATH": "/usr/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }


def test_boot_gives_whole_lines(kernel: Path, memory: Path, staging: Path) -> None:
    spin = "for ((i = 0; i < 30000; i++)); do :; done"
    words = ("gr\\xc3", "\\xbc\\xc3\\x9fe, ", "whole\\n", "last")
    lines = inside(kernel, staging, "".join(f"printf '{word}'; {spin}; " for word in words))
    assert "grüße, whole" in lines
    assert "lastlabs-exit 0" in lines


# --- where it works ----------------------------------------------------------------------

RANDOM = (
    "grep MemTotal /proc/meminfo; cat /proc/sys/kernel/random/uuid; "
    "head -c 64 /dev/urandom | od -A x -t x1"
)


def drawn_in(lines: list[str]) -> list[str]:
    """The amount of memory, then what was drawn at random, out of a console."""
    found = [
        line for line in lines if line.startswith(("MemTotal", "0000")) or line.count("-") == 4
    ]
    found.remove("000040")
    assert len(found) == 6, found
    return found


@functools.cache
def readable_root() -> Path:
    """A root in a folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="labs-root-", dir="/var/tmp"))
    atexit.register(shutil.rmtree, folder)
    folder.chmod(0o755)
    root = root_with("od", "grep", "tcpdump")
    return Path(shutil.copytree(root, folder / "root", symlinks=True))


def boot_one(
    kernel: Path,
    staging: Path,
    script: str,
    *prefix: str,
    code: Path = ROOT,
    memory_mib: int = 4096,
    **env: str,
) -> str:
    """The console of a boot in a process of its own, started by a command, in an environment."""
    done = subprocess.run(
        (
            *prefix,
            str(python()),
            str(code / BOOT_ONE.relative_to(ROOT)),
            str(kernel),
            str(readable_root()),
            str(staging),
            str(code),
            str(memory_mib),
            "/bin/bash",
            "-c",
            script,
        ),
        capture_output=True,
        text=True,
        timeout=300,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(code), **env},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def mounted(options: str) -> tuple[str, ...]:
    """A command that starts another with a tmpfs of these options over /dev/shm."""
    prefix = (
        "unshare",
        "--mount",
        *(() if os.geteuid() == 0 else ("--map-root-user",)),
        "sh",
        "-c",
        f'mount -t tmpfs -o {options} none /dev/shm && exec "$@"',
        "sh",
    )
    if subprocess.run((*prefix, "true"), capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount in a namespace")
    return prefix


@pytest.mark.parametrize("options", ["noexec", "size=64m"])
def test_boot_passes_over_shared_memory_that_cannot_be_used(
    kernel: Path, staging: Path, options: str
) -> None:
    home = tempfile.mkdtemp(prefix="labs-home-", dir="/var/tmp")
    try:
        said = boot_one(kernel, staging, "echo fine", *mounted(options), HOME=home)
        assert "fine" in said
        assert f"{home}/.cache/labs/memory/{LEFTOVER}" in said
        assert os.listdir(f"{home}/.cache/labs/memory") == []
        with pytest.raises(AssertionError, match=r"/dev/shm: (mounted noexec|64 MiB free)"):
            boot_one(kernel, staging, "echo fine", *mounted(options), LABS_MEMORY_DIR="/dev/shm")
    finally:
        shutil.rmtree(home)


def test_boot_without_home(kernel: Path, staging: Path) -> None:
    assert "fine" in boot_one(kernel, staging, "echo fine")
    assert "fine" in boot_one(kernel, staging, "echo fine", *mounted("noexec"))


@ON_EACH_KERNEL
def test_boot_where_personality_is_refused(kernel: Path, staging: Path) -> None:
    """The host places heap and stack at random, nobody may turn that off, and bytes are equal."""
    if Path("/proc/sys/kernel/randomize_va_space").read_text().strip() == "0":
        pytest.skip("this machine does not place memory at random")
    drawn = [
        drawn_in(boot_one(kernel, staging, RANDOM, LABS_TEST_REFUSE=refuse).splitlines())
        for refuse in ("", "1", "1")
    ]
    assert drawn[0] == drawn[1] == drawn[2]


@ON_EACH_KERNEL
def test_boot_draws_by_seed(kernel: Path, memory: Path, staging: Path) -> None:
    one, same, other = (drawn_in(inside(kernel, staging, RANDOM, seed=seed)) for seed in (1, 1, 2))
    assert one == same
    assert one[0] == other[0] and not set(one[1:]) & set(other[1:])


def test_boot_draws_by_memory(kernel: Path, memory: Path, staging: Path) -> None:
    """On 7.2 the amount of memory is no part of the command line that the generator mixes in."""
    one, more = (
        drawn_in(inside(kernel, staging, RANDOM, memory_mib=size))
        for size in (MEMORY_MIB, 2 * MEMORY_MIB)
    )
    assert not set(one) & set(more)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder with a copy of the code, for users that may not read ours."""
    folder = Path(tempfile.mkdtemp(prefix="labs-shared-", dir="/var/tmp"))
    ignored = shutil.ignore_patterns("__pycache__", "fixtures")
    for name in ("labs", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def for_ordinary_user(kernel: Path, shared: Path) -> tuple[Path, Path, tuple[str, ...]]:
    """A kernel and a staging folder for an ordinary user, and the words that turn root into one."""
    staging = shared / "staging"
    staging.mkdir()
    own_kernel = Path(shutil.copy(kernel, shared / "linux"))
    own_kernel.chmod(0o755)
    if os.geteuid() != 0:
        return own_kernel, staging, ()
    os.chown(staging, UNLISTED, UNLISTED)
    words = ("setpriv", f"--reuid={UNLISTED}", f"--regid={UNLISTED}", "--clear-groups")
    return own_kernel, staging, words


def test_boot_by_a_user_who_is_root_in_name_only(kernel: Path, shared: Path) -> None:
    """The home of root, which is this user's without HOME, cannot be read."""
    own_kernel, staging, prefix = for_ordinary_user(kernel, shared)
    prefix = (*prefix, "unshare", "--map-root-user")
    if subprocess.run((*prefix, "true"), capture_output=True).returncode:
        pytest.skip("this machine lets no user make a namespace")
    assert "fine" in boot_one(own_kernel, staging, "echo fine", *prefix, code=shared)


def records(capture: bytes) -> int:
    """How many packets a pcap file has; it ends where the last one does."""
    order = "<" if capture[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at, count = 24, 0
    while at < len(capture):
        at += 16 + struct.unpack_from(f"{order}8xI", capture, at)[0]
        count += 1
    assert at == len(capture)
    return count


@pytest.mark.skipif(
    shutil.which("tcpdump", path=booting.PATH) is None, reason="tcpdump is not installed"
)
def test_boot_by_an_ordinary_user_captures_every_packet(kernel: Path, shared: Path) -> None:
    """As root this test turns into a user without name, home or rights."""
    own_kernel, staging, prefix = for_ordinary_user(kernel, shared)
    program = (
        f"import sys; sys.path.insert(0, '{INSIDE_CODE}'); "
        "from tests.virtual.capturing import main; raise SystemExit(main())"
    )
    boot_one(own_kernel, staging, f'/usr/bin/python3 -I -S -c "{program}"', *prefix, code=shared)
    counted = json.loads((staging / "counted.json").read_text())
    assert counted > 50
    assert records((staging / "client" / "capture.pcap").read_bytes()) == counted
    assert b"0 packets dropped by kernel" in (staging / "client" / "tcpdump.txt").read_bytes()


# --- how it ends -------------------------------------------------------------------------

SPIN = "echo about to spin; while :; do :; done"
# `test -e` makes bash read the clock.
POLL = "echo about to poll; while [ ! -e /nonsuch ]; do :; done"
TICKS = "while sleep 0.001; do echo about to tick; done & while [ ! -e /nonsuch ]; do :; done"
SHORT = Limits(spin_cpu_s=2.0, silent_virtual_s=600.0, still_s=2.0)
PANIC = (
    "echo about to panic; echo 1 >/proc/sys/vm/panic_on_oom; "
    "mount -o remount,size=1g /tmp; cat /dev/zero >/tmp/large"
)
# RB_HALT_SYSTEM of reboot(2): the program `halt` comes with an init system, which need not be here.
HALT = "/usr/bin/python3 -ISc 'import ctypes; ctypes.CDLL(None).reboot(0xcdef0123)'"
ENDINGS = {
    "an exit code": ("echo some words; exit 3", "exit code 3", "some words"),
    "a signal": ("echo some words; kill -KILL $$", "exit code 137", "some words"),
    "a missing program": ("exec no-such-program", "exit code 127", "no-such-program"),
    "a panic": (PANIC, "ended without a result", "Kernel panic"),
    "a halt": (f"echo good night; {HALT}", "ended without a result", "good night"),
    "a flood": ("yes too many words", "printed more than 1 MiB", "too many words"),
}
NO_ENDINGS = {
    "a spin": (
        SPIN,
        "spins: in 2 s of CPU time the virtual clock did not advance",
        "about to spin",
    ),
    "a poll": (POLL, "polls: in 2 s of CPU time the virtual clock advanced by 0.", "about to poll"),
    "a poll beside a line per ms": (TICKS, "polls: in 2 s of CPU time", "about to tick"),
    "a sleep": (
        "echo asleep; sleep infinity",
        "nothing was printed for 600 s of virtual time",
        "asleep",
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_boot_reports_a_bad_end_in_one_line(
    kernel: Path, memory: Path, staging: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booting, "CONSOLE_BYTES", 1 << 20)
    script, *words = ENDINGS[ending]
    ends_badly(kernel, memory, staging, script, *words)


def ends_badly(
    kernel: Path,
    memory: Path,
    staging: Path,
    script: str,
    *words: str,
    limits: Limits = booting.LIMITS,
) -> None:
    """Boot a script that fails, in one line that has these words, and leaves nothing."""
    with pytest.raises(RunFailed) as caught:
        inside(kernel, staging, script, limits=limits)
    said = str(caught.value)
    assert "\n" not in said and "\r" not in said
    for word in (*words, "console ends: "):
        assert word in said
    assert processes(memory) == []
    assert list(memory.iterdir()) == []


# --- how one ends that never would -------------------------------------------------------


@pytest.mark.parametrize("ending", NO_ENDINGS)
def test_boot_ends_what_never_ends_and_says_why(
    kernel: Path, memory: Path, staging: Path, ending: str
) -> None:
    script, *words = NO_ENDINGS[ending]
    ends_badly(kernel, memory, staging, script, *words, limits=SHORT)


def test_limits_end_a_spin_within_a_minute() -> None:
    """The limit is CPU time; a guest that spins alone on a processor uses nearly all of it."""
    assert Limits().spin_cpu_s <= 45


def test_boot_ends_a_kernel_that_uses_no_cpu_time(
    memory: Path, staging: Path, tmp_path: Path
) -> None:
    (tmp_path / "linux").write_text("#!/bin/sh\necho I wait\nexec sleep 1000\n")
    (tmp_path / "linux").chmod(0o755)
    ends_badly(
        tmp_path / "linux",
        memory,
        staging,
        "true",
        "used no CPU time for 2 s",
        "I wait",
        limits=SHORT,
    )


# Writes of 2 KB on the loopback device cost much CPU time and next to no virtual time.
BUSY = """
import socket, threading
listener = socket.create_server(("127.0.0.1", 80))
sender = socket.create_connection(("127.0.0.1", 80))
sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
receiver = listener.accept()[0]
def send():
    for _ in range(200_000):
        sender.sendall(bytes(2048))
    sender.close()
threading.Thread(target=send).start()
while receiver.recv(65536):
    pass
"""


def test_boot_leaves_a_slow_run_that_makes_progress(
    kernel: Path, memory: Path, staging: Path
) -> None:
    """It uses more CPU time than a spin may, while the clock hardly moves, and prints nothing."""
    (staging / "busy.py").write_text(BUSY)
    limits = Limits(spin_cpu_s=1.0)
    before = os.times()
    inside(kernel, staging, "ip link set lo up; exec python3 -IS busy.py", limits=limits)
    after = os.times()
    used_s = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )
    assert used_s > 2 * limits.spin_cpu_s


def test_boot_survives_a_pause(kernel: Path, memory: Path, staging: Path) -> None:
    """Its kernel, which all programs inside wait for, is stopped for longer than it may spin or
    stand still. (Signals to the programs would reach the guest.)"""
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        if line == "about to be stopped":
            program = os.getpgid(processes(memory)[0])
            os.kill(program, signal.SIGSTOP)
            threading.Timer(3 * SHORT.still_s, os.kill, (program, signal.SIGCONT)).start()

    begin = time.monotonic()
    inside(
        kernel,
        staging,
        "echo about to be stopped; for i in {1..100}; do sleep 1; done; echo went on",
        on_line=on_line,
        limits=SHORT,
    )
    assert "went on" in lines
    assert time.monotonic() - begin > 3 * SHORT.still_s


def test_boot_judges_a_kernel_without_symbols_by_its_lines(
    kernel: Path, memory: Path, staging: Path, tmp_path: Path
) -> None:
    stripped = tmp_path / "linux"
    subprocess.run(("strip", "-o", str(stripped), str(kernel)), check=True)
    ends_badly(
        stripped,
        memory,
        staging,
        SPIN,
        "printed nothing for 2 s of CPU time",
        "about to spin",
        limits=SHORT,
    )
    assert "fine" in inside(stripped, staging, "echo fine", limits=SHORT)


@ON_EACH_KERNEL
def test_gauges_read_the_clock_and_the_network_from_outside(
    kernel: Path, memory: Path, staging: Path
) -> None:
    """`/proc/uptime` and `/proc/softirqs` show the same figures inside."""
    listed = subprocess.run(("nm", str(kernel)), capture_output=True, text=True, check=True).stdout
    symbols = {
        name: int(address, 16)
        for address, _, name in (
            line.split() for line in listed.splitlines() if len(line.split()) == 3
        )
    }
    with kernel.open("rb") as program:
        assert addresses(program.read(), (CLOCK, COUNTS, "nonsuch")) == {
            name: symbols[name] for name in (CLOCK, COUNTS)
        }
    read: list[Reading | None] = []

    def on_line(line: str) -> None:
        if line == "read me":
            read.append(Gauges(kernel).read(min(processes(memory))))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inside(
            kernel,
            staging,
            "ip link set lo up; sleep 100; echo x >/dev/udp/127.0.0.1/9; "
            "cat /proc/uptime >uptime; cat /proc/softirqs >softirqs; echo read me; "
            "while :; do :; done",
            on_line=on_line,
        )
    uptime_s = float((staging / "uptime").read_text().split()[0])
    counts = [line.split() for line in (staging / "softirqs").read_text().splitlines()]
    network = sum(int(count) for name, count in counts[1:] if name.startswith("NET_"))
    assert read[0] is not None and 100 <= uptime_s <= read[0].clock_ns / 1e9 < uptime_s + 1
    assert read[0].softirqs == network > 0


def test_boot_of_a_program_that_is_no_kernel(memory: Path, staging: Path, tmp_path: Path) -> None:
    """What is started instead of a kernel leaves its words."""
    (tmp_path / "linux").write_text("#!/bin/sh\necho I am no kernel\n")
    (tmp_path / "linux").chmod(0o755)
    with pytest.raises(RunFailed, match=r"without a result\. The console ends: I am no kernel"):
        inside(tmp_path / "linux", staging, "true")
    with pytest.raises(RunFailed, match="without a result"):
        inside(tmp_path / "nonsuch", staging, "true")
    assert list(memory.iterdir()) == []


def test_boot_starts_nothing_without_room(kernel: Path, memory: Path, staging: Path) -> None:
    with pytest.raises(Missing, match=r"guests: \d+ MiB free, 1073741824 MiB needed"):
        inside(kernel, staging, "true", memory_mib=1 << 30)
    assert list(memory.iterdir()) == []


def test_boot_interrupted_ends_the_kernel(kernel: Path, memory: Path, staging: Path) -> None:
    def on_line(line: str) -> None:
        if line == "about to spin":
            assert processes(memory)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inside(kernel, staging, SPIN, on_line=on_line)
    assert processes(memory) == []
    assert list(memory.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_boot_ends_with_its_owner_however_that_ends(
    kernel: Path, memory: Path, staging: Path, number: int
) -> None:
    """What it leaves in the memory's folder the next boot clears."""
    with owned(kernel, staging, SPIN, b"about to spin") as owner:
        assert processes(memory)
        owner.send_signal(number)
        owner.wait()
    until(lambda: processes(memory) == [], "the kernel still runs")
    if number == signal.SIGKILL:
        assert len(list(memory.glob(LEFTOVER + "*"))) == 1
    inside(kernel, staging, "true")
    assert list(memory.iterdir()) == []


@contextlib.contextmanager
def owned(
    kernel: Path, staging: Path, script: str, line: bytes
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that boots a kernel, once the console shows a line; killed at the end."""
    owner = subprocess.Popen(
        (
            sys.executable,
            str(BOOT_ONE),
            str(kernel),
            str(root_with()),
            str(staging),
            str(ROOT),
            str(MEMORY_MIB),
            "/bin/bash",
            "-c",
            script,
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert owner.stdout is not None
        with owner.stdout as lines:
            assert any(one.strip() == line for one in lines)
            yield owner
    finally:
        owner.kill()
        owner.wait()


@ON_EACH_KERNEL
def test_boot_leaves_no_program_after_its_kernel(
    kernel: Path, memory: Path, staging: Path, canaries: list[Path]
) -> None:
    """The kernel alone is killed while its owner can do nothing: a program that tries to write
    into the host's files would now do so, were it not killed with the kernel."""
    there = canaries[1].parent
    script = f"echo ready; i=0; while :; do i=$((i+1)); echo x >{there}/$i; done 2>/dev/null"
    with owned(kernel, staging, script, b"ready") as owner:
        programs = [
            pid for pid in processes(memory) if Path(f"/proc/{pid}/comm").read_text() != "sh\n"
        ]
        assert len(programs) > 1
        owner.send_signal(signal.SIGSTOP)
        os.kill(min(programs), signal.SIGKILL)
        until(lambda: not set(programs) & set(processes(memory)), "a program runs on")
        assert list(there.iterdir()) == [canaries[1]]


def test_boot_leaves_another_alone(
    kernel: Path, memory: Path, staging: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()

    def on_line(line: str) -> None:
        if line == "first":
            inside(kernel, other, "echo second >here")

    inside(kernel, staging, "echo first; sleep 1; echo third >here", on_line=on_line)
    assert (staging / "here").read_text() == "third\n"
    assert (other / "here").read_text() == "second\n"
