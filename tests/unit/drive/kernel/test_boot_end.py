"""What is said of a kernel that left no result."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from labs.drive.kernel.boot_end import FEW_MIB, Surroundings, in_words, limits

ROOT = Path(__file__).parents[4]
BEFORE = Surroundings(Path("/dev/shm"), free_mib=24_000, available_mib=20_000, oom_kills=3)


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (0, "its exit code was 0"),  # somebody halted it
        (127, "its exit code was 127"),  # the shell found no such program
        (-9, "SIGKILL ended it, which another process"),
        (137, "SIGKILL ended it, which another process"),  # as a shell reports it
        (-25, "SIGXFSZ ended it, as at the limit of file size"),
        (-64, "SIGRTMAX ended it"),
        (-63, "signal 63 ended it"),
    ],
)
def test_in_words_begins_with_the_status(exit_code: int, words: str) -> None:
    assert in_words(exit_code, BEFORE, BEFORE).startswith(words)


def test_in_words_names_what_was_exhausted() -> None:
    full = dataclasses.replace(BEFORE, free_mib=FEW_MIB - 1, oom_kills=5)
    said = in_words(-9, BEFORE, full)
    assert "killed 2 of its processes" in said and "/dev/shm, which holds" in said
    assert "for want of memory" not in in_words(-9, BEFORE, BEFORE)


def test_surroundings_of_this_machine(tmp_path: Path) -> None:
    found = Surroundings.of(tmp_path)
    assert found.free_mib > 0 and found.available_mib > 0 and found.oom_kills >= 0


@pytest.mark.parametrize(
    ("option", "words"),
    [("--fsize=209715200", "ulimit -f 200 MiB"), ("--cpu=30", "ulimit -t 30 s")],
)
def test_limits_of_a_process(option: str, words: str) -> None:
    assert words not in limits()
    script = "from labs.drive.kernel.boot_end import limits; print(limits())"
    done = subprocess.run(
        ("prlimit", option, sys.executable, "-c", script), cwd=ROOT, capture_output=True, text=True
    )
    assert words in done.stdout
