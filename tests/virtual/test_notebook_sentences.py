"""Every notebook with two sets of parameters other than its initial ones: its sentences are true of
these runs, and its cells show the conditions that they name. Notebooks of one lab share their runs,
which are small."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from labs.publish.page_parameters import Scalar
from labs.read.notebook_file import read_notebook
from tests.executed_notebooks import (
    comparisons,
    contradictions,
    executed,
    figures_read,
    wrong_figures,
)
from tests.shown_conditions import not_as_named, not_shown, repeated

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
Values = Mapping[str, Scalar]
BUFFERS: tuple[Values, ...] = (
    {"RATE_MBIT": 300, "DELAY_MS": 80, "TRANSFER_MIB": 48},
    {"RATE_MBIT": 100, "DELAY_MS": 30, "TRANSFER_MIB": 12},
)
SWEEPS = (
    "default,both-64k,both-256k,sender-64k,sender-256k,receiver-64k,receiver-256k,fixed-256k-64k,"
    "fixed-8m-256k,both-16m,overflow,writes-14480,writes-16384-burst,w-1k,setsockopt"
)
RECORDED = {"TESTBED": "recorded"}
SETS: Mapping[str, tuple[Values, ...]] = {
    "00": BUFFERS,
    "01": BUFFERS,
    "02": (
        {"RATE_MBIT": 200, "DELAY_MS": 4, "ONLY": SWEEPS},
        {"RATE_MBIT": 100, "DELAY_MS": 20, "ONLY": SWEEPS},
    ),
    "03": (
        {"DELAY_MS": 30, "REQUESTS": 100, "CONCURRENCY": 10, "PAGE_BYTES": 5000},
        {"DELAY_MS": 5, "REQUESTS": 100, "CONCURRENCY": 20, "PAGE_BYTES": 100},
    ),
    "04": (
        {"RCVBUF_KIB": 64, "MSS_BYTES": 536, "DELAY_MS": 50},
        {"RCVBUF_KIB": 16, "MSS_BYTES": 1400, "DELAY_MS": 100},
    ),
    # It needs a wall clock, so its runs are the recorded ones.
    "05": ({**RECORDED, "SIZE": "small"},),
    "06": ({**RECORDED, "KERNEL": "6.1,6.12"}, {**RECORDED, "KERNEL": "5.10,7.2"}),
    # Two machines ran only with the initial link.
    "07": ({**RECORDED, "ONLY": "shaped,default,both"}, {"ONLY": "default,wmem,both"}),
    "08": BUFFERS,
    "09": ({"CAPTURE": "C"}, {"CAPTURE": "B"}),
    "10": ({"COLUMN": "steady_mib_s"}, {"COLUMN": "predicted_mib_s"}),
    "11": (
        {"BOTTLENECK_MBIT": 10, "AQM_MBIT": 20, "PATH_RTT_MS": 20, "DURATION_S": 5},
        {"BOTTLENECK_MBIT": 5, "AQM_MBIT": 10, "PATH_RTT_MS": 60, "DURATION_S": 5},
    ),
    "12": (
        {"BOTTLENECK_MBIT": 5, "CROWD_MBIT": 10, "PATH_RTT_MS": 20, "DURATION_S": 10},
        {"BOTTLENECK_MBIT": 4, "CROWD_MBIT": 8, "PATH_RTT_MS": 60, "DURATION_S": 10},
    ),
}
FIGURES = {"00": 12, "01": 30, "02": 3, "04": 3}
"""The least number of figures and limits in sentences about single runs."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs that the notebooks share."""
    return tmp_path_factory.mktemp("runs")


def test_sets_are_of_every_notebook() -> None:
    assert set(SETS) == set(NOTEBOOKS)


@pytest.mark.parametrize(
    ("number", "place"), [(number, place) for number in SETS for place in range(len(SETS[number]))]
)
def test_notebook_says_what_its_runs_show(
    number: str, place: int, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    values = SETS[number][place]
    book = read_notebook(NOTEBOOKS[number])
    own = {} if number in ("09", "10") else {"RUNS": str(runs)}
    found = executed(book, {**own, **values})
    if "TESTBED" not in values:  # what is recorded has the article's parameters
        assert comparisons(found) == []
    assert contradictions(found) == []
    assert wrong_figures(found) == []
    assert figures_read(found) >= FIGURES.get(number, 0)
    assert (not_shown(found.book), not_as_named(found.book), repeated(found.book)) == ([], [], [])
