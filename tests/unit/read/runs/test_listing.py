"""What a RUNS folder holds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from labs.errors import BadInput, LabError
from labs.read.runs.listing import index
from labs.read.runs.run import open_run
from tests.run_folders import inputs, make_run, make_study, reseal


def test_index_of_runs_and_studies(tmp_path: Path) -> None:
    first = make_study(tmp_path, ("both",))
    second = make_study(tmp_path, ("default", "both"))
    make_run(tmp_path, inputs("unshaped"))
    runs = [entry for entry in index(tmp_path) if entry.kind == "run"]
    studies = {entry.name: entry for entry in index(tmp_path) if entry.kind == "study"}
    assert [entry.condition for entry in runs] == ["both", "default", "unshaped"]
    assert {entry.problem for entry in runs} == {None}
    assert {(entry.testbed, entry.kernel, entry.link) for entry in runs} == {
        ("virtual", "6.1.192", "as asked")
    }
    assert set(studies) == {first.name, second.name}
    assert studies[second.name].newest and not studies[first.name].newest
    assert (studies[second.name].runs, studies[second.name].missing) == (2, 0)
    assert json.dumps([entry.as_json() for entry in index(tmp_path)])


def test_index_gives_the_reason_of_damage(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    one, other = study.folders()
    (one / "server/nginx.conf").unlink()
    (other / "run.json").unlink()
    newest = tmp_path / "studies/buffers.json"
    newest.write_bytes(newest.read_bytes().replace(b'"seed": 1', b'"seed": 2'))
    problems = {entry.name: entry.problem for entry in index(tmp_path) if entry.problem}
    assert set(problems) == {one.name, other.name, "buffers"}
    assert "server/nginx.conf is missing" in str(problems[one.name])
    assert "run.json is missing" in str(problems[other.name])
    assert "was changed" in str(problems["buffers"])


def test_index_leaves_other_files_out(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes.txt").write_bytes(b"")
    (tmp_path / ".staging-buffers-both-1-1").mkdir()
    (tmp_path / ".staging-buffers-both-1-1/run.json").write_bytes(b"{}")
    assert [entry.name for entry in index(tmp_path)] == [run.name]
    (tmp_path / "empty").mkdir()
    assert index(tmp_path / "empty") == []
    with pytest.raises(BadInput, match="not a folder of runs"):
        index(tmp_path / "nothing")


def test_index_counts_the_missing_runs_of_a_study(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    for path in sorted(study.folders()[0].rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (entry,) = (entry for entry in index(tmp_path) if entry.kind == "study")
    assert (entry.runs, entry.missing, entry.problem) == (2, 1, None)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def deep(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


def surrogate(path: Path) -> None:
    path.write_bytes(b'{"schema": "\\ud800"}')


def digits(path: Path) -> None:
    path.write_bytes(b'{"schema": 1' + b"0" * 4000 + b"}")


def no_number(path: Path) -> None:
    path.write_bytes(b'{"schema": NaN}')


@pytest.mark.parametrize(
    "spoil", [pipe, zeros, folder, large, deep, surrogate, digits, no_number, Path.unlink]
)
@pytest.mark.parametrize("name", ["run.json", "seal.json", "resealed", "study"])
def test_index_shows_the_others_beside_a_bad_entry(
    tmp_path: Path, name: str, spoil: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    study = make_study(tmp_path)
    bad, good = study.folders()
    file = {"resealed": bad / "run.json", "study": study.path}.get(name, bad / name)
    spoil(file)
    if name == "resealed" and file.is_file() and spoil is not large:
        reseal(bad)
    begun = time.monotonic()
    found = {entry.name: entry.problem for entry in index(tmp_path)}
    assert time.monotonic() - begun < 10
    assert found[good.name] is None
    (problem,) = (problem for problem in found.values() if problem)
    assert "\n" not in problem
    if name != "study":
        with pytest.raises(LabError):
            open_run(bad)
    assert main(["runs", "list", str(tmp_path)]) == 6
    said = capsys.readouterr()
    assert good.name in said.out and said.err == ""
    assert problem in said.out.splitlines()[-1]
