"""`labs runs`: what is kept, told to a reader and to a program."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from labs import catalog as catalogue
from labs.cli.__main__ import main
from labs.cli.new import source
from labs.drive.record.seal import HOST
from labs.read.runs import recorded
from labs.read.runs.archive import AUDIT
from tests.real_runs import real_study
from tests.recorded_audits import USER, collected
from tests.repeated_runs import repetitions
from tests.run_folders import inputs, make_run, make_study


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["runs", *words]) == code
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def as_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    return json.loads(told(capsys, *words, "--json", code=code))


def test_list_names_runs_and_studies(capsys: pytest.CaptureFixture[str]) -> None:
    study = make_study(Path("runs"))
    text = told(capsys, "list")
    for name in (*(folder.name for folder in study.folders()), study.name, "as asked"):
        assert name in text
    report = as_json(capsys, "list", "runs")
    assert [entry["kind"] for entry in report["entries"]] == ["run", "run", "study"]


def test_list_names_what_is_damaged_too(capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(Path("runs"))
    (run / "server" / "nginx.conf").write_text("changed")
    assert f"{run.name}: " in told(capsys, "list", code=6)
    (entry,) = as_json(capsys, "list", code=6)["entries"]
    assert entry["problem"]


def test_show_of_a_run_by_name_or_path(capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(Path("runs"))
    text = told(capsys, "show", run.name)
    assert text == told(capsys, "show", str(run))
    for part in ("rtt_ms", "ok: true", "client/fetch.json", "6.1.192"):
        assert part in text
    report = as_json(capsys, "show", run.name)
    assert report["run"] == run.name and report["inputs"]["lab"] == "buffers"
    lines = told(capsys, "show", run.name, "--commands").splitlines()
    assert "tc qdisc add dev server0 root handle 1: htb" in lines
    assert as_json(capsys, "show", run.name, "--commands")["commands"] == lines


def test_show_of_a_damaged_run_is_exit_code_6(capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(Path("runs"))
    (run / "server" / "nginx.conf").write_text("changed")
    assert main(["runs", "show", run.name]) == 6
    assert capsys.readouterr().err.count("\n") == 1


def test_compare_of_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    make_study(Path("a"))
    make_study(Path("b"))
    assert "identical" in told(capsys, "compare", "a", "b")
    assert as_json(capsys, "compare", "a", "b")["grade"] == "identical"


def test_compare_of_runs_that_one_side_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    make_study(Path("a"))
    make_study(Path("b"))
    make_study(Path("b"), seed=2)
    assert told(capsys, "compare", "a", "b", code=5).splitlines()[-1] == (
        "2 runs compared: identical; 0 runs only in the first; 2 runs only in the second"
    )
    report = as_json(capsys, "compare", "a", "b", "--common")
    assert (report["compared"], report["only_first"], report["only_second"]) == (2, 0, 2)


def own_runs(folder: str, seconds: float = 11.5, note: bytes = b"") -> None:
    make_run(Path(folder), inputs("far", lab="mine"), seconds=seconds, note=note)


def test_compare_of_an_own_lab_computes_with_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalogue, "_of_files", {})
    text = source("mine").replace('fetch["before_ns"]', 'fetch["connect_ns"]')
    Path("mine.py").write_text(text)
    own_runs("a")
    own_runs("b", note=b"other bytes")
    own_runs("c", seconds=12.5)
    assert main(["runs", "compare", "a", "b"]) == 2
    assert "--lab ./" in capsys.readouterr().err
    same = as_json(capsys, "compare", "a", "b", "--lab", "./mine.py")
    assert same["grade"] == "equal"
    changed = as_json(capsys, "compare", "a", "c", "--lab", "./mine.py", code=5)
    assert changed["grade"] == "changed"
    assert "took_ms" in told(capsys, "compare", "a", "c", "--lab", "./mine.py", code=5)


def test_compare_of_two_machines_names_their_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side, timeout in (("a", "60"), ("b", "15")):
        collected_now = collected(USER)
        collected_now["files"]["/proc/sys/net/ipv4/tcp_fin_timeout"] = f"{timeout}\n"
        speeds = (0.98, 0.99, 1.0, 1.01, 1.02) if side == "a" else (0.97, 0.98, 0.99, 1.0, 1.01)
        for run in repetitions(tmp_path / side, real_study("6.1").run("default"), speeds):
            (run.path / HOST).write_text(json.dumps({AUDIT: {"here": collected_now}}))
    sides = (str(tmp_path / "a"), str(tmp_path / "b"))
    assert told(capsys, "compare", *sides).splitlines()[-2:] == [
        "machines differ in 1 item (here)",
        "  net.ipv4.tcp_fin_timeout: 60 -> 15",
    ]
    (pair,) = as_json(capsys, "compare", *sides)["machines"]
    assert pair["differences"] == [
        {"title": "net.ipv4.tcp_fin_timeout", "first": "60", "second": "15"}
    ]


def test_pack_writes_one_file_that_is_read_like_a_folder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_study(Path("runs"))
    report = as_json(capsys, "pack", "runs", "--out", "kept.tar.gz")
    assert report["runs"] == 2 and len(report["sha256"]) == 64
    assert "2 runs" in told(capsys, "pack", "runs", "--out", "kept.tar.gz")
    assert "identical" in told(capsys, "compare", "runs", "kept.tar.gz")


def test_record_replaces_the_runs_of_the_lab(capsys: pytest.CaptureFixture[str]) -> None:
    make_study(Path("runs"))
    report = as_json(capsys, "record", "runs", "data")
    packed = Path("data/buffers.tar.xz")
    assert report == {
        "path": str(packed),
        "size_bytes": packed.stat().st_size,
        "sha256": sha256(packed.read_bytes()).hexdigest(),
        "runs": 2,
        "sums": "data/SHA256SUMS",
    }
    assert Path("data/SHA256SUMS").read_text() == f"{report['sha256']}  buffers.tar.xz\n"
    make_study(Path("fresh"), ("unshaped",))
    first, second = told(capsys, "record", "fresh", "data").splitlines()
    assert first.startswith("data/buffers.tar.xz: 1 run, ")
    assert second == "data/SHA256SUMS: updated"
    assert recorded.check(Path("data")) == 1


def test_record_keeps_further_runs_under_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    study = make_study(Path("runs"))
    told(capsys, "record", "runs", "data")
    told(capsys, "record", str(study.path), "data", "buffers-witnesses")
    assert sorted(path.name for path in Path("data").iterdir()) == [
        "SHA256SUMS",
        "buffers-witnesses.tar.xz",
        "buffers.tar.xz",
    ]
    assert recorded.check(Path("data")) == 2


def test_record_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    make_study(Path("runs"))
    assert as_json(capsys, "record", "runs", "data", "--dry-run") == {
        "path": "data/buffers.tar.xz",
        "runs": 2,
        "sums": "data/SHA256SUMS",
        "replaces": False,
    }
    assert not Path("data").exists()
    told(capsys, "record", "runs", "data")
    before = Path("data/SHA256SUMS").read_bytes()
    make_study(Path("fresh"), ("unshaped",))
    assert told(capsys, "record", "fresh", "data", "--dry-run") == (
        "would replace data/buffers.tar.xz (1 run) and update data/SHA256SUMS\n"
    )
    assert Path("data/SHA256SUMS").read_bytes() == before
    assert recorded.check(Path("data")) == 1


@pytest.mark.parametrize("flags", [[], ["--dry-run"]])
def test_record_of_unusable_input(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(Path("runs"))
    told(capsys, "pack", "runs", "--out", "runs.tar.xz")
    for words in (
        ["nothing", "data"],
        ["runs.tar.xz", "data"],
        ["runs", "runs"],
        ["runs", "data", "witnesses"],
    ):
        assert main(["runs", "record", *words, *flags]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    (run / "server" / "nginx.conf").write_text("changed")
    assert main(["runs", "record", "runs", "data", *flags]) == 6
    assert not Path("data/SHA256SUMS").exists()


def test_export_has_every_run_of_a_folder_and_those_of_a_study(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Trials with other parameters make studies of their own; no run is left out for that."""
    make_study(Path("runs"), ("default", "both"), seed=1)
    newest = make_study(Path("runs"), ("default",), seed=2)
    for what, rows in (("runs", 3), (str(newest.path), 1)):
        assert as_json(capsys, "export", what, "--csv", "flat.csv")["rows"] == rows
        assert len(Path("flat.csv").read_text().splitlines()) == rows + 1
