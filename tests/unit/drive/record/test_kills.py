"""Runs whose maker is killed with SIGKILL, and makers side by side."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from labs.drive.record import run_folder
from labs.drive.record.removal import is_own_folder
from labs.drive.record.run_folder import Staging, clear_stale
from labs.drive.record.seal import verify
from labs.errors import LabError

ROOT = Path(__file__).parents[4]
# A program that makes the run `run` with the note NEW and is killed at the N-th call of a function
# of the os module (0: in the middle of writing).
MAKER = """
import os, signal, sys
from pathlib import Path
from labs.drive.record import run_folder as folder

runs, function, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
calls, real = 0, getattr(os, function, None)

def deadly(*args, **kwargs):
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)

staging = folder.Staging(runs, "run")
staging.write("server/note.txt", b"NEW")
print("staged", flush=True)
if at == 0:
    sys.stdin.read()
setattr(os, function, deadly)
staging.seal({"pid": os.getpid()})
"""


def maker(runs: Path, function: str, at: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", MAKER, str(runs), function, str(at)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def killed(runs: Path, function: str, at: int) -> bool:
    """Whether a maker came as far as its N-th call and was killed there."""
    with maker(runs, function, at) as process:
        process.communicate()
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode != 0


def left(runs: Path) -> list[str]:
    return sorted(entry.name for entry in runs.iterdir())


def note(runs: Path) -> bytes:
    verify(runs / "run")
    return (runs / "run/server/note.txt").read_bytes()


def old_run(runs: Path) -> None:
    with Staging(runs, "run") as staging:
        staging.write("server/note.txt", b"OLD")
        staging.seal({})


def test_clear_stale_spares_a_live_maker(tmp_path: Path) -> None:
    with maker(tmp_path, "none", 0) as process:
        assert process.stdout is not None and process.stdout.readline() == b"staged\n"
        assert clear_stale(tmp_path) == []
        assert len(left(tmp_path)) == 2
        process.kill()
    assert clear_stale(tmp_path) == ["run"]
    assert left(tmp_path) == []


def test_clear_stale_after_a_kill_at_any_step_of_sealing(tmp_path: Path) -> None:
    for function in ("chmod", "fsync", "rename"):
        at = 1
        while killed(tmp_path, function, at):
            assert left(tmp_path) != []
            clear_stale(tmp_path)
            assert left(tmp_path) in ([], ["run"])
            at += 1
        assert note(tmp_path) == b"NEW"
        assert left(tmp_path) == ["run"]
        assert at > 1
        for path in sorted((tmp_path / "run").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (tmp_path / "run").rmdir()


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        ("rename", 1, b"OLD"),  # before anything was renamed
        ("rename", 2, b"OLD"),  # the name was found taken, nothing moved yet
        ("rename", 3, b"NEW"),  # the old run is away, the new one not in: it is whole, so forward
        ("rmdir", 1, b"NEW"),  # both renamed, the old one half deleted
    ],
)
def test_clear_stale_finishes_a_replacement(
    tmp_path: Path, function: str, at: int, expected: bytes
) -> None:
    old_run(tmp_path)
    assert killed(tmp_path, function, at)
    assert clear_stale(tmp_path) == ["run"]
    assert note(tmp_path) == expected
    assert left(tmp_path) == ["run"]


def test_clear_stale_keeps_a_changed_run_that_was_being_replaced(tmp_path: Path) -> None:
    """Killed after the old run was renamed away, and before it was found to be changed."""
    old_run(tmp_path)
    (tmp_path / "run/mine.txt").write_text("my notes")
    assert killed(tmp_path, "rename", 3)
    assert clear_stale(tmp_path) == ["run"]
    (kept,) = tmp_path.glob(".changed-*")
    assert note(tmp_path) == b"NEW" and (kept / "mine.txt").read_text() == "my notes"
    assert left(tmp_path) == [kept.name, "run"]


def test_clear_stale_drops_a_new_run_that_is_not_whole(tmp_path: Path) -> None:
    old_run(tmp_path)
    assert killed(tmp_path, "rename", 3)
    staged = next(tmp_path.glob(".staging-*"))
    (staged / "server/note.txt").write_bytes(b"CUT")  # as a power failure may leave it
    assert clear_stale(tmp_path) == ["run"]
    assert note(tmp_path) == b"OLD"
    assert left(tmp_path) == ["run"]


def test_clear_stale_of_a_lock_without_a_folder(tmp_path: Path) -> None:
    (tmp_path / ".lock-run-1-1").write_bytes(b"")
    (tmp_path / ".hidden").mkdir()
    assert clear_stale(tmp_path) == []
    assert left(tmp_path) == [".hidden"]
    assert clear_stale(tmp_path / "nothing") == []


@pytest.mark.parametrize("then", ["nothing has the name", "another run has the name"])
def test_seal_by_two_makers_of_whom_the_other_is_between_two_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """The run that was found is judged when the other maker has just renamed it away."""
    old_run(tmp_path)
    asked = []

    def judged_too_late(folder: Path) -> bool:
        asked.append(folder)
        if len(asked) > 1:
            return is_own_folder(folder)
        folder.rename(tmp_path / "elsewhere")
        judged = is_own_folder(folder)
        if then == "another run has the name":
            old_run(tmp_path)
        return judged

    monkeypatch.setattr(run_folder, "is_own_folder", judged_too_late)
    with Staging(tmp_path, "run") as staging:
        staging.write("server/note.txt", b"NEW")
        staging.seal({})
    assert note(tmp_path) == b"NEW"
    assert left(tmp_path) == ["elsewhere", "run"]
    assert len(asked) == (1 if then == "nothing has the name" else 2)


def test_seal_by_many_makers_leaves_one_run(tmp_path: Path) -> None:
    loop = (
        MAKER.replace(
            "staging = folder",
            "for _ in range(15):\n  folder.clear_stale(runs)\n  staging = folder",
        )
        .replace("\nstaging.", "\n  staging.")
        .replace("\nprint", "\n  print")
        .replace("\nif at == 0:\n    sys.stdin.read()", "")
        .replace("\nsetattr(os, function, deadly)", "")
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", loop, str(tmp_path), "rename", "-1"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    while any(process.poll() is None for process in processes):
        try:
            verify(tmp_path / "run")
        except (LabError, OSError):
            continue  # not made yet, or replaced while it was read
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert note(tmp_path) == b"NEW"
    assert left(tmp_path) == ["run"]
