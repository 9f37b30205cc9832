"""Answers of the model that another process finds again, and what happens to damaged ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.read.theory import bulk, kept_answers
from labs.read.theory.bulk import simulated, transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.kept_answers import DIGEST, PACKAGE, SOURCES, kept

FLOWS = (
    Flow(rate_mbit=100.0, rtt_ms=40.0, kernel="6.1"),
    Flow(rate_mbit=33.3, rtt_ms=7.1, kernel="7.2", sndbuf_bytes=65_536, sndbuf_locked=True),
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of kept answers of a new user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _forget()
    yield tmp_path / "labs" / "answers" / f"{DIGEST}.jsonl"
    _forget()


def _forget() -> None:
    """As in a new process."""
    transfer.cache_clear()
    kept_answers._known.cache_clear()


def refused() -> str:
    raise AssertionError("simulated again")


@pytest.mark.parametrize(
    ("flow", "transfer_bytes"), [(FLOWS[0], 2_000_000), (FLOWS[1], 2_000_000), (FLOWS[0], 1000)]
)
def test_transfer_reads_back_what_was_simulated(
    file: Path, monkeypatch: pytest.MonkeyPatch, flow: Flow, transfer_bytes: int
) -> None:
    now = simulated(flow, transfer_bytes)
    assert bool(now.cannot_say) == (transfer_bytes == 1000)
    assert transfer(flow, transfer_bytes) == now
    assert file.stat().st_mode & 0o777 == 0o600
    _forget()
    monkeypatch.setattr(bulk, "simulated", lambda *_: refused())
    assert transfer(flow, transfer_bytes) == now  # to the last digit
    with pytest.raises(AssertionError, match="simulated again"):
        transfer(flow, transfer_bytes + 1)


@pytest.mark.parametrize("damage", ["half", "not text", "another form"])
def test_kept_leaves_damaged_lines_out(file: Path, damage: str) -> None:
    kept('"first"', lambda: "1")
    kept('"second"', lambda: "2")
    lines = file.read_bytes().splitlines(keepends=True)
    if damage == "half":
        file.write_bytes(lines[0] + lines[1][:-8])
    elif damage == "not text":
        file.write_bytes(lines[0] + b"\xff\n")
    else:
        file.write_bytes(lines[0] + b'[1]\n{"question": "second"}\n7\n')
    _forget()
    assert kept('"second"', lambda: "3") == "3"
    assert kept('"first"', lambda: "4") == ("4" if damage == "not text" else "1")


@pytest.mark.parametrize("obstacle", ["file", "link", "no home"])
def test_kept_answers_without_a_cache(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    other = tmp_path / "other"
    if obstacle == "file":
        file.parent.parent.write_text("in the way")
    elif obstacle == "link":
        file.parent.mkdir(parents=True)
        file.symlink_to(other)
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "")
    assert kept('"question"', lambda: "5") == "5"
    assert not other.exists()


def test_sources_are_all_that_the_model_imports() -> None:
    """Except what keeps the answers, and the texts of errors."""
    words = (
        "import sys, labs.read.theory.bulk; print(*(m for m in sys.modules if m[:5] == 'labs.'))"
    )
    done = subprocess.run((sys.executable, "-c", words), capture_output=True, check=True, text=True)
    names = {
        PACKAGE / f"{name.removeprefix('labs.').replace('.', '/')}.py"
        for name in done.stdout.split()
    }
    modules = {file for file in names if file.is_file()}
    covered = {file for pattern in SOURCES for file in PACKAGE.glob(pattern)}
    assert {str(file.relative_to(PACKAGE)) for file in modules - covered} == {
        "errors.py",
        "drive/record/disk.py",
        "drive/record/removal.py",
    }
