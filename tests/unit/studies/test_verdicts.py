"""`labs.verdicts(study)`: what a notebook shows of an article's claims."""

from __future__ import annotations

from pathlib import Path

import pytest

import labs
from labs.catalog import find
from labs.errors import BadInput
from labs.experiments.buffers.parameters import Buffers
from labs.read.claims.evidence import runs_of
from labs.studies.study import Study
from labs.studies.verdicts import COLUMNS
from tests.real_runs import real

RUNS = Path(__file__).parents[2] / "fixtures" / "claims" / "6.1.tar.xz"


def test_verdicts_have_one_row_per_claim() -> None:
    study = Study(
        Buffers(),
        tuple(runs_of(find("buffers"), RUNS)),
        RUNS.parent,
        None,
        True,
        lab=find("buffers"),
    )
    table = labs.verdicts(study)
    assert list(table) == list(COLUMNS)
    assert list(table["claim"]) == [f"A1.{number}" for number in range(1, 19)]
    row = table.set_index("claim").loc["A1.8"]
    assert row["verdict"] == "differs (factor 1.23)"
    assert row["article"] == "mean: 77.8, end: 92.7"
    assert row["testbed"] == "virtual · Linux 6.1.192"
    assert "held until kernel 6.5" in table._repr_html_()


def test_verdicts_follow_the_runs() -> None:
    study = Study(Buffers(), (real("captured"),), Path("runs"), None, True, lab=find("buffers"))
    verdicts = labs.verdicts(study).set_index("claim")
    assert verdicts.loc["A1.8", "verdict"] == "not judged"
    assert str(verdicts.loc["A1.8", "because"]).startswith(
        "other parameters: rate_mbit 10, not 1000, delay_ms 40, not 200"
    )


def test_verdicts_refuse_a_lab_without_an_article(tmp_path: Path) -> None:
    from labs.cli.new import source

    path = tmp_path / "mine.py"
    path.write_text(source("mine"))
    lab = find(str(path))
    study = Study(lab.Parameters(), (), tmp_path, None, True, lab=lab)
    with pytest.raises(BadInput, match="the lab mine has no claims to judge"):
        labs.verdicts(study)
