"""The table that `labs run` prints: every result of the lab, except those that it hides itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs import catalog as catalogue
from labs.catalog import LABS, find
from labs.cli.new import source
from labs.cli.run import as_json, as_text
from labs.read.runs.run import open_run
from labs.studies.study import Study, study
from tests.run_folders import inputs, make_run

RESULTS = ("    return {", '    return {"bytes": 1234, "ended": "early", "server": "nginx", ')


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "_own", {})


def own_study(more: str = "") -> Study:
    """One run of a lab of the reader's own, whose results include columns of other labs."""
    text = source("mine").replace(*RESULTS).replace('fetch["before_ns"]', 'fetch["connect_ns"]')
    Path("mine.py").write_text(text + more)
    lab = find("./mine.py")
    run = open_run(make_run(Path("runs"), inputs("far", lab="mine")))
    return Study(lab.Parameters(), (run,), Path("runs"), None, True, lab=lab)


def printed(found: Study) -> list[list[str]]:
    """The first two lines of the table: its head, and the row of the only run."""
    said = as_json(found.lab, found.parameters, found)
    assert json.loads(json.dumps(said)) == said
    text = as_text(said, [name for name, one in found.lab.columns.items() if one.hidden])
    return [line.split() for line in text.splitlines()[:2]]


def test_an_own_lab_s_columns_are_all_printed() -> None:
    head, row = printed(own_study())
    assert head[:6] == ["condition", "bytes", "ended", "server", "took_ms", "round_trips"]
    assert row[:4] == ["far", "1234", "early", "nginx"]
    assert not {"testbed", "kernel", "source", "link", "key", "digest"} & set(head)


@pytest.mark.parametrize("name", LABS)
def test_a_lab_hides_columns_that_it_has(name: str) -> None:
    lab = find(name)
    hidden = {column for column, one in lab.columns.items() if one.hidden}
    assert hidden and hidden <= set(study(lab.Parameters(testbed="recorded")).results().columns)
