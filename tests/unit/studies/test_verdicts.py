"""`labs.verdicts(study)`: what a notebook shows of an article's claims."""

from __future__ import annotations

import dataclasses
from itertools import permutations
from pathlib import Path

import pytest

import labs
from labs.catalog import find
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.buffers.results import article
from labs.studies.study import Study
from tests.made_verdicts import runs_of
from tests.real_runs import real, with_condition

LAB = find("buffers")
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
    assert list(table) == [
        *("claim", "what it says", "article", "predicted", "measured", "unit", "verdict"),
        *("because", "judged on", "tolerance", "testbed"),
    ]
    assert set(table["claim"]) == {claim.id for claim in article().claims}
    # Of the wrong ones the main claim first, then in the article's order.
    assert list(table["claim"][:3]) == ["A1.5", "A1.3b", "A1.9a"]
    assert list(table["verdict"][:2]) == ["wrong", "wrong"]
    row = table.set_index("claim").loc["A1.8"]
    assert row["verdict"] == "holds"
    assert row["article"] == "end: 1.01, whole file: 0.85"
    assert row["judged on"] == (
        "both, shaped, default; 1000 Mbit/s, 200 ms; 1000 Mbit/s. 2 of 2 figures"
    )
    assert row["tolerance"].startswith("5 %: wget's last figure")
    assert row["testbed"] == "virtual · Linux 6.1.192"
    assert "right number, wrong reason" in table._repr_html_()


def test_verdicts_on_two_kernels_have_a_row_for_each_that_differs() -> None:
    first, second = (
        Study(Buffers(), tuple(runs_of(LAB, path)), RUNS.parent, None, True, lab=LAB)
        for path in (RUNS, RUNS.with_name("6.12.tar.xz"))
    )
    table = labs.verdicts(first, second)
    on_each = table.loc[table["claim"] == "A1.11", "verdict"]
    assert on_each.tolist() == ["holds on Linux 6.1", "wrong on Linux 6.12"]
    rows = table.set_index("claim")
    assert rows.loc["A1.6", "testbed"] == "virtual · Linux 6.1.192, 6.12.117"
    titles = [line for reason in table["because"] for line in reason.more if "get rid of" in line]
    assert len(titles) == 1


def test_verdicts_fold_the_evidence_behind_a_few_words() -> None:
    study = Study(Buffers(), tuple(runs_of(LAB, RUNS)), RUNS.parent, None, True, lab=LAB)
    table = labs.verdicts(study)
    assert max(len(reason.split()) for reason in table["because"]) <= 25
    shown = table[table["claim"] == "A1.10"][["claim", "because"]]._repr_html_()
    before, _, behind = shown.partition("<details><summary>evidence</summary>")
    assert "50 % of a receive buffer becomes window" not in before
    assert "50 % of a receive buffer becomes window" in behind


def test_verdicts_with_further_conditions() -> None:
    every = runs_of(LAB, RUNS)
    timed = tuple(run for run in every if run.condition == "httping")
    rest = tuple(run for run in every if run not in timed)
    first, second = (
        Study(Buffers(), runs, RUNS.parent, None, True, lab=LAB) for runs in (rest, timed)
    )
    assert labs.verdicts(first).set_index("claim").loc["A1.4", "verdict"] == "not judged"
    rows = labs.verdicts(first, second).set_index("claim")
    assert (rows.loc["A1.4", "verdict"], rows.loc["A1.6", "verdict"]) == ("holds", "holds")


def test_verdicts_do_not_depend_on_the_order_of_studies() -> None:
    """Two kernels, and of one of them two studies, of which both have the default sizes."""
    older, newer = runs_of(LAB, RUNS), runs_of(LAB, RUNS.with_name("6.12.tar.xz"))
    timed = tuple(run for run in older if run.condition == "httping")
    rest = tuple(run for run in older if run not in timed)
    studies = [
        Study(Buffers(), runs, RUNS.parent, None, True, lab=LAB) for runs in (rest, timed, newer)
    ]
    first, *others = (labs.verdicts(*some) for some in permutations(studies))
    assert first.set_index("claim").loc["A1.4", "verdict"] == "holds"
    for other in others:
        assert other.equals(first)
        assert [reason.more for reason in other["because"]] == [
            reason.more for reason in first["because"]
        ]


def test_verdicts_of_two_testbeds_name_both_witnesses() -> None:
    """The same runs as if the second testbed had performed them."""
    first = Study(Buffers(), tuple(runs_of(LAB, RUNS)), RUNS.parent, None, True, lab=LAB)
    names = [
        "shaped",
        "shaped-256k",
        "httping",
        "default",
        "wmem",
        "both",
        "rmem100",
        "setsockopt",
        "by-hand",
        "near",
        "near-32k",
        "near-64k",
        "near-128k",
        "near-256k",
        "near-1024k",
        "pause-rmem100",
        "pause-both",
    ]
    machines = tuple(
        dataclasses.replace(
            run,
            record={**run.record, "inputs": {**run.inputs, "testbed": "vagrant", "repetition": 1}},
        )
        for run in first.runs
        if run.condition in names
    )
    second = Study(Buffers(), machines, RUNS.parent, None, True, lab=LAB)
    rows = labs.verdicts(first, second).set_index("claim")
    both = rows[rows["testbed"].str.startswith("virtual, vagrant")]
    numbers = ("2", "3a", "3b", "4", "5", "6", "7", "8", "9a", "9b", "13", "14", "15")
    assert {f"A1.{number}" for number in numbers} <= set(both.index)
    assert "disputed" not in set(both["verdict"])


def test_verdicts_follow_the_runs() -> None:
    study = Study(Buffers(), (real("captured"),), Path("runs"), None, True, lab=find("buffers"))
    verdicts = labs.verdicts(study).set_index("claim")
    assert verdicts.loc["A1.8", "verdict"] == "not judged"
    assert str(verdicts.loc["A1.8", "because"]).startswith("needs the conditions shaped, default:")
    runs = tuple(with_condition(real("captured"), name=name) for name in ("wmem", "default"))
    wmem = dataclasses.replace(study, runs=runs)
    assert str(labs.verdicts(wmem).set_index("claim").loc["A1.7", "because"]).startswith(
        "other parameters: delay_ms 40, not 200"
    )


def test_verdicts_refuse_a_lab_without_an_article(tmp_path: Path) -> None:
    from labs.cli.new import source

    path = tmp_path / "mine.py"
    path.write_text(source("mine"))
    lab = find(str(path))
    study = Study(lab.Parameters(), (), tmp_path, None, True, lab=lab)
    with pytest.raises(BadInput, match="the lab mine has no claims to judge"):
        labs.verdicts(study)


def test_verdicts_judge_studies_with_the_same_parameters_together() -> None:
    """A1.20 needs a condition of each."""
    study = labs.study(labs.check("buffers", {"TESTBED": "recorded", "ONLY": "default"}))
    more = study.with_conditions("moderate-off")
    alone = [labs.verdicts(of).set_index("claim").loc["A1.20", "verdict"] for of in (study, more)]
    together = labs.verdicts(study, more).set_index("claim").loc["A1.20"]
    assert (alone, together["verdict"]) == (["not judged"] * 2, "holds")
    assert together["judged on"].startswith("moderate-off, default;")
