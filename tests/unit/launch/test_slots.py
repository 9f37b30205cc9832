"""Places for runs: bounded over all processes of a user, and by the memory that is free."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.kernel.memory import TOUCHED_MIB
from labs.drive.record.cache import private_folder
from labs.errors import BadInput, Missing
from labs.launch import locks, slots

ROOT = Path(__file__).parents[3]
# Holds a place in a process of its own, says so, and ends when its input does.
HOLDER = """
import sys
from labs.launch import slots
with slots.slot("both", lambda: False, print) as cpu:
    print("held", flush=True)
    sys.stdin.read()
"""


def never() -> bool:
    return False


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of this test's own, so that runs of others do not count."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the first of two places."""
    monkeypatch.setenv("LABS_JOBS", "2")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
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


def test_free_place_passes_over_one_that_another_process_holds(
    other: subprocess.Popen[str],
) -> None:
    second = slots.free_place("mine")
    assert second is not None and second[0] == 1
    with second[1]:
        assert slots.free_place("mine") is None
        assert list(slots.held()) == ["0", "1"]


def test_free_place_gets_that_of_a_killed_process(other: subprocess.Popen[str]) -> None:
    other.kill()
    other.wait()
    first = slots.free_place("mine")
    assert first is not None and first[0] == 0
    first[1].release()
    assert slots.held() == {}


@pytest.mark.parametrize("kind", ["places", "programs"])
def test_slot_refuses_a_cache_that_others_may_write_to(kind: str) -> None:
    private_folder(kind).chmod(0o775)
    with (
        pytest.raises(BadInput, match="chmod -R go-w") as caught,
        slots.slot("a run", never, print),
    ):
        raise AssertionError("a run was begun")
    assert "\n" not in str(caught.value)


def test_slot_is_in_a_folder_that_nobody_else_can_use(cache: Path) -> None:
    """Whoever can take all places stops every run."""
    with slots.slot("mine", never, pytest.fail):
        (place,) = (cache / "labs" / "places").iterdir()
        folder = place.parent.stat()
        assert (stat.S_IMODE(folder.st_mode), folder.st_uid) == (0o700, os.geteuid())


def test_slot_waits_until_free_or_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABS_JOBS", "1")
    cancelled = threading.Event()
    with slots.slot("mine", cancelled.is_set, pytest.fail) as cpu:
        assert cpu in slots.cpus()
        cancelled.set()
        with pytest.raises(KeyboardInterrupt), slots.slot("mine", cancelled.is_set, pytest.fail):
            pytest.fail("the only place was given twice")
    with slots.slot("mine", cancelled.is_set, pytest.fail):
        assert slots.free_place("mine") is None


def test_slot_tells_whom_it_waits_for(
    other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABS_JOBS", "1")
    told: list[str] = []
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt), slots.slot("mine", lambda: bool(told), told.append):
        pytest.fail("the only place was given twice")
    assert time.monotonic() - begin < 5
    (line,) = told
    assert line.startswith("for a slot: at most 1 (LABS_JOBS); held by process ")
    assert f"process {other.pid} (both, for " in line


def test_slot_pins_runs_to_different_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABS_JOBS", "2")
    monkeypatch.setattr(slots, "cpus", lambda: [3, 5])
    with slots.slot("a", never, pytest.fail) as one, slots.slot("b", never, pytest.fail) as another:
        assert {one, another} == {3, 5}


def test_slot_refuses_a_run_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "available_mib", lambda: TOUCHED_MIB - 1)
    with (
        pytest.raises(Missing, match="Close other programs, or lower LABS_JOBS"),
        slots.slot("mine", never, pytest.fail),
    ):
        pytest.fail("a place was given")
    assert slots.held() == {}
    monkeypatch.setattr(slots, "available_mib", lambda: TOUCHED_MIB)
    with slots.slot("mine", never, pytest.fail):
        pass


def test_slot_counts_the_memory_of_runs_that_have_just_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two begin together on a machine that can hold one: the second waits until the first has
    touched its memory, and then sees what is left."""
    monkeypatch.setenv("LABS_JOBS", "2")
    monkeypatch.setattr(slots, "available_mib", lambda: 2 * TOUCHED_MIB - 1)
    monkeypatch.setattr(locks, "LOOK_S", 0.0)
    told: list[str] = []
    with slots.slot("first", never, pytest.fail):
        with (
            pytest.raises(KeyboardInterrupt),
            slots.slot("second", lambda: bool(told), told.append),
        ):
            pytest.fail("the same memory was given twice")
        assert told[0].startswith(f"for memory: {2 * TOUCHED_MIB - 1} MiB are free; ")
        monkeypatch.setattr(slots, "SETTLED_S", 0.0)
        with slots.slot("second", never, pytest.fail):
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
