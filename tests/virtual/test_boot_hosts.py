"""Where a kernel boots: shared memory, homes, users, and hosts that place memory at random."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.kernel import boot as booting
from labs.drive.kernel.boot import LEFTOVER
from labs.drive.kernel.programs import python
from labs.guest.programs.init import INSIDE_CODE
from tests.virtual.booting import BOOT_ONE, MEMORY_MIB, ON_EACH_KERNEL, ROOT, inside
from tests.virtual.roots import root_with

UNLISTED = 54321
RANDOM = (
    "grep MemTotal /proc/meminfo; cat /proc/sys/kernel/random/uuid; "
    "head -c 64 /dev/urandom | od -A x -t x1"
)


@pytest.fixture
def staging() -> Iterator[Path]:
    """Not in /dev/shm, where temporary files may be: tests mount something else there."""
    with tempfile.TemporaryDirectory(prefix="labs-staging-", dir="/var/tmp") as folder:
        yield Path(folder)


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
