"""Places for runs: bounded over all processes of a machine, and by the memory that is free."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.kernel.memory import TOUCHED_MIB
from labs.errors import BadInput, Missing
from labs.launch import slots

ROOT = Path(__file__).parents[3]
# Holds a place in a process of its own, says which, and ends when its input does.
HOLDER = """
import sys
from labs.launch import slots
slots.NAME = sys.argv[1]
held = slots.take()
print(held and held[0], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Names of this test's own, so that runs of others do not count."""
    own = f"\0labs-test{tmp_path}-"[:90]
    monkeypatch.setattr(slots, "NAME", own)
    return own


@pytest.fixture
def held_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the first of two places."""
    monkeypatch.setenv("LABS_JOBS", "2")
    code = HOLDER.replace("sys.argv[1]", repr(name))
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "0\n"
        yield process
        process.kill()


@pytest.mark.parametrize("said", ["0", "-1", "two", "", "1025", "1.5"])
def test_limit_refuses_what_is_no_whole_number(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABS_JOBS", said)
    with pytest.raises(BadInput, match="from 1 to 1024"):
        slots.limit()


def test_limit_is_one_per_cpu_without_labs_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABS_JOBS", raising=False)
    assert slots.limit() == len(slots.cpus())


def test_take_finds_a_place_held_by_another_process(held_elsewhere: subprocess.Popen[str]) -> None:
    second = slots.take()
    assert second is not None and second[0] == 1
    assert slots.take() is None
    second[1].close()


def test_take_gets_the_place_of_a_killed_process(held_elsewhere: subprocess.Popen[str]) -> None:
    held_elsewhere.kill()
    held_elsewhere.wait()
    first = slots.take()
    assert first is not None and first[0] == 0
    first[1].close()


def test_slot_waits_until_free_or_cancelled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABS_JOBS", "1")
    cancelled = threading.Event()
    with slots.slot(cancelled.is_set) as cpu:
        assert cpu == slots.cpus()[0]
        cancelled.set()
        with pytest.raises(KeyboardInterrupt), slots.slot(cancelled.is_set):
            pytest.fail("the only place was given twice")
    with slots.slot(cancelled.is_set):
        assert slots.take() is None


def test_slot_refuses_a_run_without_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "available_mib", lambda: TOUCHED_MIB - 1)
    with (
        pytest.raises(Missing, match="close something, or lower LABS_JOBS"),
        slots.slot(lambda: False),
    ):
        pytest.fail("a place was given")
    monkeypatch.setattr(slots, "available_mib", lambda: TOUCHED_MIB)
    with slots.slot(lambda: False):
        pass


@pytest.mark.parametrize(
    ("asked", "missing", "free_mib", "made"),
    [
        (4, 9, 100 * TOUCHED_MIB, 4),
        (4, 3, 100 * TOUCHED_MIB, 3),
        (4, 9, 2 * TOUCHED_MIB, 2),
        (4, 9, 0, 1),
        (None, 9, 100 * TOUCHED_MIB, 7),
    ],
)
def test_side_by_side_by_request_limit_and_memory(
    asked: int | None, missing: int, free_mib: int, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABS_JOBS", "7")
    monkeypatch.setattr(slots, "available_mib", lambda: free_mib)
    assert slots.side_by_side(asked, missing) == made
