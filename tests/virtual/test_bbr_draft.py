"""The runs of docs/recipes/bbr_draft.py give the verdicts and the figures of docs/bbr-draft.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.bbr_draft import PAGE, SHOWN_KERNEL, judged, page
from labs import catalog
from labs.read.runs.compare import every_run
from tests.kept_runs import make

RECIPE = PAGE.parent / "recipes" / "bbr_draft.py"
ROW = re.compile(r"^\| (A\.\d+) \| .* \| (.*) \| \d+ of \d+ \|$", re.MULTILINE)
MEASURED = re.compile(r"^- (.*): (yes|no)$", re.MULTILINE)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
VARYING = re.compile(NUMBER.pattern + r"|[A-Z_]{2,}(?: or [A-Z_]{2,})?")


def figures(text: str) -> list[float]:
    """The numbers of a line; those in brackets are limits."""
    return [float(number) for number in NUMBER.findall(text)]


def near(value: float) -> object:
    """The kernel draws other numbers if the code of a run takes another moment: the phases, losses
    and samples then differ by single packets and rounds."""
    return pytest.approx(value, rel=0.3, abs=0.1 if value < 2 else 1)


def performed(kernel: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_of_files", {})  # other tests know no such lab
    lab = catalog.find(str(RECIPE))
    make(lab, lab.Parameters(kernel=kernel, runs=str(folder)))


def test_page_has_the_figures_of_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    performed(SHOWN_KERNEL, tmp_path / "runs", monkeypatch)
    expected = MEASURED.findall(PAGE.read_text("utf-8"))
    cells = MEASURED.findall(page(judged(every_run(tmp_path / "runs"))))
    assert len(cells) == len(expected)
    for (text, met), (on_page, met_there) in zip(cells, expected, strict=True):
        assert met == met_there, text
        assert VARYING.sub("", text) == VARYING.sub("", on_page)
        assert figures(text) == [near(value) for value in figures(on_page)], text


@pytest.mark.parametrize(
    "kernel",
    [pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")],
)
def test_page_has_the_verdicts_of_other_kernels(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    performed(kernel, tmp_path / "runs", monkeypatch)
    (verdicts,) = judged(every_run(tmp_path / "runs")).values()
    for judgement, (case, words) in zip(
        verdicts, ROW.findall(PAGE.read_text("utf-8")), strict=True
    ):
        shown, *others = words.split("; ")
        there = dict(reversed(other.rsplit(" on ", 1)) for other in others)
        assert there.get(kernel, shown) == judgement.verdict, case
