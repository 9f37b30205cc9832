"""What one process holds at a time, who is told about it, and what a killed process leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from labs.errors import BadInput
from labs.launch.locks import Holder, holder, take, wait_for

ROOT = Path(__file__).parents[3]
# Holds a lock in a process of its own until its input ends.
HOLDER = """
import sys
from pathlib import Path
from labs.launch.locks import take
held = take(Path(sys.argv[1]), "both", "")
print(held is not None, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "one"


@pytest.fixture
def other(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    with subprocess.Popen(
        (sys.executable, "-c", HOLDER, str(path)),
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        yield process
        process.kill()


def test_take_excludes_another_process_until_it_is_killed(
    path: Path, other: subprocess.Popen[str]
) -> None:
    assert take(path, "mine", "") is None
    other.kill()
    other.wait()
    assert path.exists() and holder(path) is None and not path.exists()
    mine = take(path, "mine", "")
    assert mine is not None
    mine.release()
    assert list(path.parent.iterdir()) == []


def test_take_while_others_release(path: Path) -> None:
    """A file that its holder removes between our opening and locking it is no error."""

    def often() -> int:
        taken = 0
        while taken < 200:
            mine = take(path, "mine", "")
            if mine is not None:
                taken += 1
                mine.release()
        return taken

    with ThreadPoolExecutor(3) as pool:
        counts = [pool.submit(often) for _ in range(3)]
        assert [count.result() for count in counts] == [200, 200, 200]
    assert not path.exists()


def test_holder_is_the_process_and_what_it_does(path: Path, other: subprocess.Popen[str]) -> None:
    by = holder(path)
    assert by is not None
    assert (by.pid, by.what, by.begun) == (other.pid, "both", True)
    assert 0 <= time.time() - by.since_s < 60


def test_holder_of_a_lock_that_nobody_holds(path: Path) -> None:
    assert holder(path) is None
    path.parent.mkdir()
    path.write_text("{")
    assert holder(path) is None and not path.exists()


@pytest.mark.parametrize(
    ("begun", "held_s", "words"),
    [
        (True, 12, "process 4711 (both, for 12 s)"),
        (True, 300, "process 4711 (both, for 5 min)"),
        (False, 0, "process 4711 (both, waiting for 0 s)"),
    ],
)
def test_holder_in_words(begun: bool, held_s: float, words: str) -> None:
    assert Holder(4711, "both", time.time() - held_s, begun).describe() == words


def test_take_refuses_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="name another"):
        take(tmp_path / "file" / "one", "mine", "name another")


def _link(lock: Path) -> None:
    lock.symlink_to("/dev/null")


def _second_name(lock: Path) -> None:
    lock.touch()
    os.link(lock, lock.with_name("other"))


def _open_to_others(lock: Path) -> None:
    lock.touch()
    lock.chmod(0o620)


def _of_another_user(lock: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    lock.touch()
    os.chown(lock, 65534, 65534)


@pytest.mark.parametrize("plant", [_link, _second_name, _open_to_others, _of_another_user])
def test_take_refuses_what_is_no_lock_of_this_user(
    path: Path, plant: Callable[[Path], None]
) -> None:
    path.parent.mkdir()
    plant(path)
    with pytest.raises(BadInput, match="name another") as caught:
        take(path, "mine", "name another")
    assert "\n" not in str(caught.value) and os.path.lexists(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_take_refuses_a_folder_of_somebody_else() -> None:
    with pytest.raises(BadInput):
        take(Path("/one"), "mine", "")


@pytest.mark.parametrize(
    ("failures", "slept_ms", "told_times"),
    [
        (1, [5], 0),  # somebody inspected the lock
        (5, [5, 10, 20, 40, 80], 0),
        (7, [5, 10, 20, 40, 80, 160, 200], 1),
        (400, [5, 10, 20, 40, 80, 160, *[200] * 394], 2),  # 79 s
    ],
)
def test_wait_for_looks_soon_then_seldom_and_tells_of_long_waits(
    failures: int, slept_ms: list[int], told_times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s: list[float] = []
    monkeypatch.setattr(time, "sleep", slept_s.append)
    monkeypatch.setattr(time, "monotonic", lambda: 7.0 + sum(slept_s))
    answers = iter([*[None] * failures, "found"])
    lines: list[str] = []
    assert wait_for(lambda: next(answers), lambda: "for it", lambda: False, lines.append) == "found"
    assert [round(1000 * seconds) for seconds in slept_s] == slept_ms
    assert lines == ["for it"] * told_times


def test_wait_for_ends_when_it_is_cancelled() -> None:
    with pytest.raises(KeyboardInterrupt):
        wait_for(lambda: None, lambda: "for it", lambda: True, pytest.fail)
