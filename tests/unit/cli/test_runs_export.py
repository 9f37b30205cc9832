"""`labs runs export`: what it writes, what it skips, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from tests.real_runs import STUDIES, real, real_study

STUDY = str(STUDIES / "6.1.tar.xz")


def test_export_flent_writes_a_file_per_run_and_counts_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "flent"
    assert main(["runs", "export", STUDY, "--flent", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["files"] == sorted(map(str, out.iterdir()))
    assert len(report["files"]) + len(report["skipped"]) == 23
    assert {name.split("-")[1] for name in report["skipped"]} <= {"httping", "setsockopt"}


def test_export_pcapng_writes_a_file_per_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = real("captured")
    assert main(["runs", "export", str(run.path), "--pcapng", str(tmp_path)]) == 0
    hosts = [host for host in run.hosts if run.capture(host)]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{run.name}-{host}.pcapng" for host in hosts
    }


@pytest.mark.parametrize(
    "words",
    [
        "grants --pcapng out",  # it has no capture
        "grants --flent out",  # it has no transfer
        "grants --csv x.parquet",
        "grants --parquet x.csv",
        "nowhere --csv x.csv",
        "grants",
        "grants --csv x.csv --flent out",
        "download --flent file",  # a file, where a folder is needed
        "download --flent file/below",
    ],
)
def test_export_refuses_in_one_line(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    named, *flags = words.split()
    what = {"grants": real_study("6.1").run("setsockopt"), "download": real("unshaped")}
    assert main(["runs", "export", str(what[named].path if named in what else named), *flags]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not Path("out").exists()
