"""What tests read and what takes long to make: made once per key, and kept in the user's cache.

The key of a virtual run names all of its inputs, and equal inputs leave equal bytes. So a test that
reads runs takes those of an earlier call; they are verified like any other. Tests of launching
itself and of repeatability perform their own. What tshark prints of a file is kept likewise. With
LABS_FRESH=1 all is made again, and replaced.

KEY/NAME is a run or a text. It is removed after 30 days without use, or when the more recent ones
take 2 GiB: only a real folder of this user with the name of a key, never what a link points to.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from labs.drive.parameters.declare import LabParameters
from labs.drive.record.cache import cache
from labs.drive.record.disk import owned_folder
from labs.errors import LabError
from labs.launch.launch import Made, run
from labs.launch.plan import Planned, plan
from labs.read.lab import Lab
from labs.read.runs.run import open_run

STORE = cache() / "test-runs"
TEXT = "text"
KEY = re.compile(r"[0-9a-f]{64}")
UNUSED_S = 30 * 24 * 3600
MOST_BYTES = 2 << 30


def make(lab: Lab, p: LabParameters) -> Made:
    """The study that the parameters describe, of kept runs where there are any."""
    with kept(lab, [p]):
        return run(lab, p)


@contextmanager
def kept(lab: Lab, points: Sequence[LabParameters]) -> Iterator[None]:
    """Put the kept runs of studies into their folder; afterwards keep those that were performed."""
    runs = Path(points[0].runs)
    planned = {one.name: one for p in points for one in _planned(lab, p)}
    performed = [one for one in planned.values() if not take(STORE, one.key, runs / one.name)]
    yield
    for one in performed:
        keep(STORE, one.key, runs / one.name)
    if performed:
        _clear_once()


def _planned(lab: Lab, p: LabParameters) -> Iterator[Planned]:
    for kernel in p.kernels:
        with suppress(LabError):  # of a kernel that is not built
            yield from plan(lab, replace(p, kernel=kernel))


def text(store: Path, key: str, make: Callable[[], str]) -> str:
    """The kept text of this key, or what `make` returns, which is kept."""
    kept = store / key / TEXT
    if _may_be_taken(store / key) and kept.is_file() and not kept.is_symlink():
        os.utime(kept.parent)
        return kept.read_text(encoding="utf-8")
    made = make()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / TEXT
        file.write_text(made, encoding="utf-8")
        keep(store, key, file)
    return made


def take(store: Path, key: str, run: Path) -> bool:
    """Copy the kept run of this key to the path `run`; False if there is none, or it is damaged."""
    if run.exists():
        return True
    kept = store / key
    if not (_may_be_taken(kept) and _is_own(kept / run.name)):
        return False
    shutil.copytree(kept / run.name, run, symlinks=True)
    with suppress(LabError):
        if open_run(run).key == key:
            os.utime(kept)
            return True
    for damaged in (run, kept):
        shutil.rmtree(damaged)
    return False


def keep(store: Path, key: str, made: Path) -> None:
    """Keep a run or a file under its key, in place of what is there."""
    store.mkdir(parents=True, exist_ok=True)
    with owned_folder("labs-making-", store) as making:
        (making / "new").mkdir()
        copy = functools.partial(shutil.copytree, symlinks=True) if made.is_dir() else shutil.copy
        copy(made, making / "new" / made.name)
        with suppress(FileNotFoundError):
            (store / key).rename(making / "old")
        with suppress(OSError):  # another process was faster
            (making / "new").rename(store / key)


@functools.cache
def _clear_once() -> None:
    clear(STORE, time.time())


def clear(store: Path, now_s: float) -> list[str]:
    """Remove what was not used for long or exceeds the limit; the names of what was removed."""
    kept = [one for one in store.iterdir() if KEY.fullmatch(one.name) and _is_own(one)]
    found = sorted(((one.lstat().st_mtime, one) for one in kept), reverse=True)
    removed, total = [], 0
    for used_s, one in found:
        total += sum(path.lstat().st_size for path in one.rglob("*"))
        if now_s - used_s > UNUSED_S or total > MOST_BYTES:
            shutil.rmtree(one, ignore_errors=True)
            removed.append(one.name)
    return removed


def _may_be_taken(kept: Path) -> bool:
    return os.environ.get("LABS_FRESH") != "1" and _is_own(kept)


def _is_own(folder: Path) -> bool:
    """Whether it is a real folder of this user."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
