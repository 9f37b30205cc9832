"""Launching runs beside others: each is made once, by the code that its key names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from labs.catalog import find
from labs.drive.record.cache import cache
from labs.drive.record.seal import read_seal
from labs.errors import RunFailed
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch.launch import run
from labs.launch.wanted import Event, Wanted

ROOT = Path(__file__).resolve().parents[2]
LAUNCHERS = 4
CONDITIONS = "off,on,quickack"
# Makes the runs, and prints what became of each.
LAUNCHER = """
import sys
from labs.catalog import find
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch.launch import run
from labs.launch.wanted import Event, Wanted
lines = []
p = Nagle(runs=sys.argv[1], only=sys.argv[2], requests=100)
run(find("nagle"), p, Wanted(tell=lambda title, event: lines.append(str(event))))
print(lines.count("made"), lines.count("there already"))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies and places of this test's own; kernels are those that are built."""
    monkeypatch.setenv("LABS_KERNELS", str(cache() / "kernels"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "labs"


def test_run_makes_each_run_once_for_launchers_side_by_side(
    tmp_path: Path, own_cache: Path
) -> None:
    launchers = [
        subprocess.Popen(
            (sys.executable, "-c", LAUNCHER, str(tmp_path / "runs"), CONDITIONS),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(LAUNCHERS)
    ]
    said = [launcher.communicate()[0].split() for launcher in launchers]
    made = [int(words[0]) for words in said]
    assert sum(made) == 3
    assert [int(words[1]) for words in said] == [3 - number for number in made]
    assert len(list((tmp_path / "runs").glob("nagle-*"))) == 3
    assert not list((tmp_path / "runs").glob(".*"))
    assert not list((own_cache / "places").iterdir())
    assert len(list((own_cache / "code").iterdir())) == 1


def test_run_keeps_nothing_if_its_code_is_changed_meanwhile(
    tmp_path: Path, own_cache: Path
) -> None:
    def damage(title: str, event: Event) -> None:
        for path in own_cache.glob("code/*/copy/labs/guest/bench.py"):
            path.write_bytes(b"")

    p = Nagle(runs=str(tmp_path / "runs"), only="on", requests=100)
    with pytest.raises(RunFailed, match=r"bench\.py"):
        run(find("nagle"), p, Wanted(tell=damage))
    assert not list((tmp_path / "runs").glob("nagle-*"))
    (folder,) = run(find("nagle"), p).file.folders()
    (again,) = run(
        find("nagle"), Nagle(**{**vars(p), "runs": str(tmp_path / "again")})
    ).file.folders()
    assert read_seal(again) == read_seal(folder)
