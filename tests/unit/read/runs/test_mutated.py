"""Mutated runs, studies, packed files and raw output: some hundreds anew, and every one that ever
broke a reader.

`make fuzz-runs` reads 200,000 and keeps what breaks a reader in tests/fixtures/crashes.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fuzz_runs, hostile_inputs


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hostile_inputs.Sources]:
    folder = tmp_path_factory.mktemp("hostile")
    hostile_inputs.collect(folder / "sources")
    before, tempfile.tempdir = tempfile.tempdir, str(folder / "temporary")
    (folder / "temporary").mkdir()
    yield hostile_inputs.Sources(folder / "work", folder / "sources")
    tempfile.tempdir = before


def test_judge_of_inputs_that_broke_a_reader(sources: hostile_inputs.Sources) -> None:
    for path in sorted(fuzz_runs.CRASHES.glob("*")):
        kind = path.name.partition("-seed-")[0]
        fuzz_runs.judge(kind, path.read_bytes(), sources)


def test_judge_of_mutated_inputs(sources: hostile_inputs.Sources) -> None:
    found: Counter[str] = Counter()
    for number in range(3 * len(hostile_inputs.KINDS)):
        kind, content = fuzz_runs.input_of(2, number, sources, "")
        assert (kind, content) == fuzz_runs.input_of(2, number, sources, "")
        found[fuzz_runs.judge(kind, content, sources)] += 1
    # Some are read and some are refused: a mutation that only ever did one shows nothing.
    assert set(found) == {"", "BadInput", "Damaged"}
    assert min(found[""], found["Damaged"]) > sum(found.values()) / 10


BROKEN = """
import os, signal, sys, time
from pathlib import Path
from types import ModuleType
class Sources:
    def __init__(self, work, sources): pass
    def warm_up(self): pass
    def mutated(self, kind, chance): return str(chance.random()).encode()
stub = sys.modules["tests.hostile_inputs"] = ModuleType("tests.hostile_inputs")
stub.Sources = Sources
from tests import fuzz_runs
outside, folder = sys.argv.pop(1), Path(sys.argv[-1])
def judge(kind, content, sources):
    number = int((folder / "number").read_text().split()[0])
    if number == 101: raise KeyError("x")
    if number == 102: time.sleep(60)
    if number == 103: open(outside, "w")
    if number == 104: os.abort()
    if number == 105: bytearray(8 << 30)
    if number == 210: os.kill(os.getpid(), signal.SIGTERM)
    return ""
fuzz_runs.judge, fuzz_runs.SECONDS_EACH = judge, 1
sys.exit(fuzz_runs.main())
"""


def test_chunk_continues_after_an_input_that_breaks_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an exception, a hang, a write elsewhere, a fatal signal, too much memory."""
    outside, crashes, folder = (tmp_path / name for name in ("outside", "crashes", "folder"))
    folder.mkdir()
    monkeypatch.setattr(fuzz_runs, "COMMAND", (sys.executable, "-c", BROKEN, str(outside)))
    args = fuzz_runs.parser().parse_args(["--seed", "5", "--kind", "x", "--crashes", str(crashes)])
    fuzzing = fuzz_runs.Fuzzing(args, tmp_path)
    fuzzing.chunk(100, 8, folder)
    kept = sorted(crashes.iterdir())
    assert [path.name for path in kept] == [f"x-seed-5-input-{one}" for one in range(101, 106)]
    assert len({path.read_bytes() for path in kept}) == 5
    assert fuzzing.crashes == 5
    (line,) = fuzzing.tally.lines()
    assert line.startswith("x ") and " 2 read" in line
    with pytest.raises(SystemExit, match="stopped from outside"):
        fuzzing.chunk(210, 1, folder)
