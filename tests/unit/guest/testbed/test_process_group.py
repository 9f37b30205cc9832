"""What a process group uses, and whether it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from labs.guest.testbed.process_group import cpu_s, stopped


@pytest.fixture
def spinning() -> Iterator[int]:
    """A process group that spins in a child of its leader."""
    leader = subprocess.Popen(
        (sys.executable, "-c", "import os\nos.fork()\nwhile True: pass"), start_new_session=True
    )
    try:
        yield leader.pid
    finally:
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()


def test_cpu_s_and_stopped_of_a_group_that_is_stopped_and_continued(spinning: int) -> None:
    def until_used(used_s: float) -> None:
        for _ in range(600):
            if cpu_s(spinning) >= used_s:
                return
            time.sleep(0.05)
        raise AssertionError(f"it used {cpu_s(spinning)} s")

    until_used(0.5)
    assert not stopped(spinning)
    os.killpg(spinning, signal.SIGSTOP)
    time.sleep(0.1)
    assert stopped(spinning)
    used_s = cpu_s(spinning)
    time.sleep(0.5)
    assert cpu_s(spinning) == used_s
    os.killpg(spinning, signal.SIGCONT)
    until_used(used_s + 0.2)
    assert not stopped(spinning)
