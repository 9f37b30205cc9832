"""Parameters that a condition does not use: found in every lab, said where runs are shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.cli.__main__ import main
from labs.cli.run_report import as_json, describe
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.read.result_row import UNUSED
from labs.read.unused_parameters import changes_condition, unused
from labs.studies.study import Study
from tests.real_runs import real, with_condition

LOSS = "loss-0-cubic-0"
ASKED: dict[str, Any] = {"size": "full", "only": LOSS, "rate_mbit": 300.0, "delay_ms": 10.0}


@pytest.mark.parametrize(
    ("lab", "given", "condition", "names"),
    [
        ("buffers", {"rate_mbit": 300, "delay_ms": 10}, LOSS, {"rate_mbit", "delay_ms"}),
        ("buffers", {"rate_mbit": 300, "delay_ms": 10}, "default", set()),
        ("buffers", {"rate_mbit": 300, "delay_ms": 10}, "shaped", {"delay_ms"}),
        ("buffers", {"buffer_mib": 20}, "default", {"buffer_mib"}),
        ("buffers", {"buffer_mib": 20}, "wmem", set()),
        ("buffers", {"rate_mbit": 300}, "sweep-7324k", set()),  # only this rate has such a size
        # The other without the one is refused.
        ("buffers", {"loss_pct": 1, "shaped_at": "router"}, LOSS, {"loss_pct"}),
        ("nagle", {"delay_ms": 5}, "off", set()),
        ("nagle", {"delay_ms": 5}, "bulk", {"delay_ms"}),
        ("nagle", {"capture_file": "x.pcap"}, "off", set()),  # no condition is about it
        ("sweeps", {"write_bytes": 1000}, "default", set()),
        ("sweeps", {"sndbuf_kib": 128}, "default", {"sndbuf_kib"}),
        ("windows", {"initrwnd": 10}, "article-scale0", {"initrwnd"}),
        ("stack", {"connections": 50}, "polling-c1", {"connections"}),
    ],
)
def test_unused_of_each_lab(
    lab: str, given: dict[str, Any], condition: str, names: set[str]
) -> None:
    found = find(lab)
    p = found.Parameters(size="full", **given)
    assert set(unused(found, p, [condition]).get(condition, {})) == names
    for name in names:  # the run is another one only by what it does use
        usual = {name: getattr(found.Parameters(), name)}
        assert not changes_condition(found, p, replace(p, **usual), condition)


def test_unused_of_the_defaults_is_nothing() -> None:
    for name in ("buffers", "nagle", "sweeps", "windows", "stack"):
        lab = find(name)
        p = lab.Parameters()
        assert unused(lab, p, [one.name for one in lab.conditions(p)]) == {}


def lossy() -> Study:
    link = {"rate_mbit": 100.0, "delay_ms": 40.0, "shaped_at": "router"}
    run = with_condition(real("captured"), name=LOSS, link=link)
    return Study(Buffers(**ASKED), (run,), Path("runs"), None, True, lab=find("buffers"))


def test_unused_parameters_are_said_with_the_results() -> None:
    study = lossy()
    said = as_json(study.lab, study.parameters, study)
    (row,) = json.loads(json.dumps(said))["results"]
    assert row["unused"] == {"rate_mbit": 300.0, "delay_ms": 10.0}
    note = "own link: 100 Mbit/s, 40 ms, at the router; not used: rate_mbit 300, delay_ms 10"
    assert note in describe(study.lab, said)
    assert UNUSED in study.results()["note_codes"][0].split()
    assert note in study.results()["notes"][0]
    assert list(study.link["Note"]) == [note]
    usual = replace(study, parameters=Buffers(size="full", only=LOSS))
    assert "Note" not in usual.link and UNUSED not in usual.results()["note_codes"][0]


def test_unused_parameters_are_said_in_a_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "buffers", "--size", "full", "--only", f"{LOSS},default", "--dry-run"]
    words += ["--rate-mbit", "300", "--delay-ms", "10"]
    assert main([*words, "--json"]) == 0
    plan = {one["condition"]: one for one in json.loads(capsys.readouterr().out)["conditions"]}
    assert plan[LOSS]["unused"] == {"rate_mbit": 300.0, "delay_ms": 10.0}
    assert plan[LOSS]["link"].startswith("100 Mbit/s, 40 ms")
    assert (plan["default"]["unused"], plan["default"]["link"]) == ({}, "300 Mbit/s, 10 ms")
    assert main(words) == 0
    said = capsys.readouterr().out.splitlines()
    place = next(at for at, line in enumerate(said) if f" {LOSS}," in line)
    assert said[place + 1] == f"# {plan[LOSS]['note']}"
    assert sum(str(plan[LOSS]["note"]) in line for line in said) == 1
