"""`labs runs export`: what it writes, what it skips, and what it refuses in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.cli.__main__ import main
from tests.real_runs import real, real_study


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
        "grants --flent out",  # not a format
        "grants --csv x.parquet",
        "grants --parquet x.csv",
        "nowhere --csv x.csv",
        "grants",
        "grants --csv x.csv --pcapng out",
        "download --pcapng file",  # a file, where a folder is needed
        "download --pcapng file/below",
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
