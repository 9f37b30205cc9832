"""The audit as a table for notebooks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import labs
from labs.errors import Missing
from labs.read.runs.archive import AUDIT
from labs.read.runs.run import open_run
from labs.studies.machine_audit import COLUMNS, audit
from tests.recorded_audits import GUEST, USER, collected
from tests.run_folders import make_run


def test_audit_of_this_machine() -> None:
    table = labs.audit()
    assert tuple(table.columns) == COLUMNS
    assert len(table) >= 50 and set(table["machine"]) == {"here"}


def test_audit_of_the_machines_of_runs(tmp_path: Path) -> None:
    machines = {"server": collected(USER), "client": collected(GUEST)}
    run = open_run(make_run(tmp_path, host={AUDIT: machines}))
    table = audit([run])
    assert list(dict.fromkeys(table["machine"])) == ["server", "client"]
    (release,) = table.loc[(table.machine == "client") & (table.item == "Kernel"), "value"]
    assert release == "6.1.192"


def test_audit_of_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Missing, match="Run it on Linux"):
        audit()


def test_audit_of_runs_without_one_is_empty(tmp_path: Path) -> None:
    assert audit([open_run(make_run(tmp_path))]).empty
