"""What `labs run` prints for parameters with several values."""

from __future__ import annotations

import json

import pytest

from labs.cli.__main__ import main

RECORDED = ("run", "buffers", "--testbed", "recorded", "--only", "both")


def test_run_of_recorded_points_prints_one_table_and_what_is_lacking(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*RECORDED, "--delay-ms", "201,200"]) == 2
    printed = capsys.readouterr()
    head, row, *rest = printed.out.splitlines()
    assert head.split()[:3] == ["delay_ms", "condition", "goodput_mib_s"]
    assert row.split()[:2] == ["200", "both"]
    assert rest[1].startswith("1 points, 1 run; testbed recorded")
    assert "no results at delay_ms 201: no recorded run" in rest[2]
    assert "DELAY_MS = 201" in printed.err and len(printed.err.splitlines()) == 1


def test_run_of_recorded_points_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RECORDED, "--delay-ms", "200,201", "--rate-mbit", "1000,1000", "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["axes"] == {"rate_mbit": [1000.0], "delay_ms": [200.0, 201.0]}
    (row,) = report["results"]
    assert list(row)[:3] == ["rate_mbit", "delay_ms", "condition"]
    assert row["link"]["ok"] and row["run_rate_mbit"] == pytest.approx(1000, rel=0.01)
    assert [point["values"]["delay_ms"] for point in report["points"]] == [200.0]
    assert [point["values"]["delay_ms"] for point in report["lacking"]] == [201.0]


def test_dry_run_prints_points_and_conditions_that_share_a_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The condition `near` has a delay of its own."""
    words = ("run", "buffers", "--testbed", "recorded", "--only", "both,near", "--dry-run")
    assert main([*words, "--delay-ms", "10,50"]) == 0
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines() if line]
    assert [line[:2] for line in lines[1:5]] == [
        ["10", "both"],
        ["10", "near"],
        ["50", "both"],
        ["50", "near"],
    ]
    assert text.count("the same run for every delay_ms") == 2
    assert main([*words, "--delay-ms", "10,50", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["axes"] == {"delay_ms": [10.0, 50.0]}
    assert [condition["unused"] for condition in report["points"][0]["conditions"]] == [
        [],
        ["delay_ms"],
    ]


def test_dry_run_of_points_that_are_all_impossible(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", "nagle", "--testbed", "recorded", "--concurrency", "100", "--dry-run")
    assert main([*words, "--requests", "10,20"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "concurrency 100" in printed.err
