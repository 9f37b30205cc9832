"""The table that `labs run` prints: every result of the lab, except those that it hides itself."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from labs import catalog as catalogue
from labs.catalog import LABS, find
from labs.cli.new import source
from labs.cli.run_report import PIECES, as_json, describe
from labs.errors import LabError
from labs.read.result_row import NO_RESULTS
from labs.read.runs.archive import run_folders
from labs.read.runs.recorded import runs_of
from labs.read.runs.run import open_run
from labs.studies.study import Study, study
from tests.real_runs import windows_study
from tests.run_folders import inputs, make_run

# Columns that other labs have too, and hide.
COLUMNS = """
    @column("the body", unit="bytes", predicted_by="body")
    def bytes(self) -> int:
        return 1234

    @column("how it ended")
    def ended(self) -> str:
        return "early"

    @column("what was requested", hidden=True)
    def body(self) -> int:
        return 1234
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "_of_files", {})


def own_study() -> Study:
    """One run of a lab of the reader's own, whose results include columns of other labs."""
    text = source("mine").replace('fetch["before_ns"]', 'fetch["connect_ns"]')
    Path("mine.py").write_text(text + COLUMNS)
    lab = find("./mine.py")
    run = open_run(make_run(Path("runs"), inputs("far", lab="mine")))
    return Study(lab.Parameters(), (run,), Path("runs"), None, True, lab=lab)


def printed(study: Study) -> list[list[str]]:
    """The first two lines of the table: its head, and the row of the only run."""
    report = as_json(study.lab, study.parameters, study)
    assert json.loads(json.dumps(report)) == report
    text = describe(study.lab, report)
    return [line.split() for line in text.splitlines()[:2]]


def test_as_text_of_an_own_lab_with_column_names_of_other_labs() -> None:
    """Only what the lab itself hides is left out; it stays in the study's table."""
    study = own_study()
    head, row = printed(study)
    assert head[:5] == ["condition", "took_ms", "round_trips", "bytes", "ended"]
    assert (row[0], row[3:5]) == ("far", ["1234", "early"])
    assert study.results()["body"].tolist() == [1234]
    assert not {"testbed", "kernel", "source", "link", "key", "digest"} & set(head)


def test_results_of_a_run_without_a_file_do_not_hide_the_others() -> None:
    first = own_study()
    text = Path("mine.py").read_text()
    begin = "        self.run = run\n"
    assert begin in text
    lacking = '        if run.condition == "near":\n            run.text("client/gone.txt")\n'
    Path("gone.py").write_text(text.replace(begin, lacking + begin))
    lab = find("./gone.py")
    runs = tuple(
        open_run(make_run(Path("gone"), inputs(name, lab="gone"))) for name in ("near", "far")
    )
    study = Study(lab.Parameters(), runs, Path("gone"), None, True, lab=lab)
    near, far = study.results().to_dict("records")
    assert near["note_codes"] == NO_RESULTS and "client/gone.txt" in near["notes"]
    assert near["took_ms"] != near["took_ms"]
    assert far["bytes"] == first.results()["bytes"][0] == 1234
    with pytest.raises(LabError, match=r"client/gone\.txt"):
        dataclasses.replace(study, runs=runs[:1], every=runs[:1]).results()


def test_as_text_names_the_remedy_for_a_loss_that_is_not_as_requested() -> None:
    study = own_study()
    report = as_json(study.lab, study.parameters, study)
    link = report["results"][0]["link"]
    link |= {"ok": False, "problems": ["0.552 % lost, asked 1 within 0.21 points"]}
    assert PIECES in describe(study.lab, report)
    link["asked"]["shaped_at"] = "router"
    assert PIECES not in describe(study.lab, report)


def test_as_text_of_several_kernels_has_their_rows_side_by_side() -> None:
    first = own_study()
    kernel = {"version": "7.2.13-1", "digest": "0" * 64}
    run = open_run(make_run(Path("runs"), inputs("far", lab="mine", kernel=kernel)))
    second = dataclasses.replace(first, runs=(run,), every=(run,))
    third = dataclasses.replace(first, runs=(), every=(), lacks="no kernel 5.10 is built")
    study = dataclasses.replace(first, others=(second, third))
    report = as_json(study.lab, study.parameters, study)
    assert [row["kernel"] for row in report["results"]] == ["6.1.192", "7.2.13"]
    assert (report["kernel"], report["other_kernels"][0]["kernel"]) == ("6.1.192", "7.2.13")
    assert report["lacking"] == ["no kernel 5.10 is built"]
    lines = [line.split() for line in describe(study.lab, report).splitlines()]
    assert [line[:2] for line in lines[:3]] == [
        ["condition", "kernel"],
        ["far", "6.1.192"],
        ["far", "7.2.13"],
    ]
    assert "testbed virtual, Linux 6.1.192, 7.2.13; the runs are in runs" in describe(
        study.lab, report
    )


def test_as_text_of_several_kernels_says_of_which_a_remark_is() -> None:
    older, other = windows_study("6.1"), windows_study("6.12")
    remark = "predicted window: equal to the one on the wire at 100 % of the packets of each run"
    for windows, expected in (
        (older, [remark]),
        (dataclasses.replace(older, others=(other,)), [f"Linux 6.1.192; Linux 6.12.117: {remark}"]),
    ):
        text = describe(windows.lab, as_json(windows.lab, windows.parameters, windows))
        assert [line for line in text.splitlines() if remark in line] == expected


RECORDED: dict[str, dict[str, Any]] = {"stack": {"duration_s": 3, "work_us": 1000}}
"""The parameters of recorded runs that differ from the defaults (data/DATASETS.md)."""


@pytest.mark.parametrize("name", LABS)
def test_as_text_hides_declared_columns(name: str) -> None:
    lab = find(name)
    recorded = {run.lab for run in map(open_run, run_folders(runs_of(name)))}
    if name not in recorded:
        pytest.skip(f"there are no recorded runs of {name}")
    hidden = {column for column, shown_column in lab.columns.items() if shown_column.hidden}
    judged = study(lab.Parameters(testbed="recorded", **RECORDED.get(name, {})))
    assert hidden <= set(judged.results().columns)
    head = describe(lab, as_json(lab, judged.parameters, judged)).splitlines()[0].split()
    assert head[0] == "condition" and not hidden & set(head)
