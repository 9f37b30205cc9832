"""Equal inputs leave equal bytes: twenty runs of a bulk download with its capture, one digest.

Sixteen run side by side, so each of them meets another's load; one more while both cores are busy,
one from another folder, one as another user, one with a cold page cache.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import labs
from labs.drive.kernel import store

STUDY = Path(__file__).with_name("one_study.py")
WHAT = ("buffers", "only=both", "transfer_mib=16", "capture=True")
PACKAGE = Path(labs.__file__).parent


def made(
    code: Path,
    runs: Path,
    *prefix: str,
    cwd: Path | None = None,
    interpreter: str = sys.executable,
    **env: str,
) -> str:
    """The line `NAME DIGEST` of one run made in a process of its own."""
    done = subprocess.run(
        (*prefix, interpreter, str(code / STUDY.name), str(runs), *WHAT),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(code), **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def code() -> Iterator[Path]:
    """A copy of the package that every user can read."""
    folder = Path(tempfile.mkdtemp(prefix="labs-test-", dir="/var/tmp"))
    try:
        shutil.copytree(PACKAGE, folder / "labs", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(STUDY, folder)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield folder
    finally:
        shutil.rmtree(folder)


def as_another_user(code: Path) -> str:
    """A run by a user without home, rights or this clone, with a kernel that is shared."""
    kernel = store.find("6.1")
    shutil.copytree(kernel.folder, code / "kernels" / kernel.folder.name)
    for path in (code / "kernels").rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.name == "linux" else 0o644)
    own = code / "own"
    own.mkdir()
    os.chown(own, 65534, 65534)
    return made(
        code,
        own / "runs",
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        cwd=own,
        interpreter="/usr/bin/python3",
        HOME="/nonexistent",
        XDG_CACHE_HOME=str(own),
        TMPDIR="/tmp",
        LABS_KERNELS=str(code / "kernels"),
    )


def test_runs_repeat_to_the_byte_twenty_times(
    code: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("repeat")
    folders = [base / f"run{number}" for number in range(16)]
    with ThreadPoolExecutor(2) as pool:
        lines = list(pool.map(partial(made, code), folders))

    busy = [
        subprocess.Popen((sys.executable, "-c", "while True: pass"))
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        lines.append(made(code, base / "busy"))
    finally:
        for process in busy:
            process.kill()
            process.wait()

    elsewhere = base / "a folder" / "further down"
    elsewhere.mkdir(parents=True)
    lines.append(made(code, Path("here"), cwd=elsewhere))

    as_root = os.geteuid() == 0
    if as_root:
        lines.append(as_another_user(code))
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
    lines.append(made(code, base / "cold"))

    assert len(lines) == (20 if as_root else 19)
    assert set(lines) == {lines[0]}, lines

    # The digest is over the bytes: two folders compared file by file, host.json left out.
    name = lines[0].split()[0]
    compared = filecmp.dircmp(folders[0] / name, base / "cold" / name, ignore=["host.json"])
    assert not (compared.left_only or compared.right_only or compared.diff_files)
    capture = folders[0] / name / "client" / "capture.pcap"
    assert filecmp.cmp(capture, base / "cold" / name / "client" / "capture.pcap", shallow=False)
    assert capture.stat().st_size > 100_000


def test_runs_differ_with_another_seed(code: Path, tmp_path: Path) -> None:
    one, other = (
        subprocess.run(
            (
                sys.executable,
                str(code / STUDY.name),
                str(tmp_path / seed),
                "buffers",
                "only=both",
                "transfer_mib=1",
                "capture=True",
                f"seed={seed}",
            ),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(code)},
        ).stdout.split()
        for seed in ("1", "2")
    )
    # Ports and sequence numbers are drawn: the same experiment, other packets.
    captures = [
        next(tmp_path.glob(f"{seed}/*/client/capture.pcap")).read_bytes() for seed in ("1", "2")
    ]
    assert one != other
    assert captures[0] != captures[1]
