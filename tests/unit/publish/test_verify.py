"""What is verified without performing a run: checksums, verdicts, and who is refused."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from labs.cli import verify as command
from labs.errors import BadInput, Damaged
from labs.publish.bundle_layout import VERDICTS
from labs.publish.verify import INTACT, verify
from labs.read.runs.recorded import keep
from labs.read.runs.run import open_run
from tests.hostile_bundles import files_of, made, summed, zipped
from tests.run_folders import inputs, make_run, reseal


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.main(parser.parse_args(list(map(str, words))))


def in_real_time(folder: Path) -> Path:
    return make_run(folder, inputs(testbed="namespaces", kernel=None, repetition=1))


def test_runs_in_real_time_are_intact_and_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_real_time(tmp_path / "runs")
    assert run(tmp_path / "runs", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["grade"] == INTACT
    assert said["runs"]["real_time"] == said["runs"]["checked"] == 1
    assert said["runs"]["repeated"] == 0


def test_recorded_data_are_held_to_their_checksums(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    keep(in_real_time(tmp_path / "runs").parent, data)
    assert run(data) == 0
    packed = data / "buffers.tar.xz"
    packed.write_bytes(packed.read_bytes() + b"\0\0\0\0")
    capsys.readouterr()
    with pytest.raises(Damaged):
        run(data, "--json")
    assert json.loads(capsys.readouterr().out)["grade"] == "damaged"


def test_one_flipped_byte_is_damaged(tmp_path: Path) -> None:
    folder = in_real_time(tmp_path / "runs")
    config = folder / "server/nginx.conf"
    config.write_bytes(bytes([config.read_bytes()[0] ^ 1]) + config.read_bytes()[1:])
    with pytest.raises(Damaged, match=r"server/nginx\.conf was changed"):
        run(tmp_path / "runs")


def test_a_run_does_not_load_a_lab_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may name any lab, such as a file of the current folder."""
    (tmp_path / "evil.py").write_text("open('loaded', 'w')")
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs", {**inputs(), "lab": "evil.py"})
    found = verify(tmp_path / "runs")
    assert (found.grade, len(found.foreign), found.repeated) == (INTACT, 1, [])
    assert not (tmp_path / "loaded").exists()
    assert any("not part of this package" in line for line in found.lines())


def test_verdicts_that_changed_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of(made(tmp_path))
    said = json.loads(files[VERDICTS])
    claim = next(one for one in said["articles"][0]["verdicts"])
    claim["verdict"] = "<b>forged</b>"
    (tmp_path / "x.zip").write_bytes(zipped(summed({**files, VERDICTS: json.dumps(said).encode()})))
    monkeypatch.setattr("labs.publish.verify.repeat", lambda runs, into, jobs: ([], []))
    found = verify(tmp_path / "x.zip")
    assert found.grade == "moved beyond" and len(found.verdicts) == 1
    assert claim["id"] in found.verdicts[0] and "<b>forged</b>" in found.verdicts[0]


def test_execute_needs_a_notebook(tmp_path: Path) -> None:
    in_real_time(tmp_path / "runs")
    with pytest.raises(BadInput, match="no notebooks"):
        run(tmp_path / "runs", "--execute")


@pytest.mark.parametrize("words", [["--sample", "0"], ["--jobs", "-1"], ["nothing-here"]])
def test_main_refuses(tmp_path: Path, words: list[str]) -> None:
    in_real_time(tmp_path / "runs")
    with pytest.raises(BadInput):
        run(*(words if words[0] == "nothing-here" else [tmp_path / "runs", *words]))


def test_memory_that_no_lab_allows_is_not_tried(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", inputs(memory_mib=1 << 30))
    found = verify(tmp_path / "runs")
    assert found.grade == "not repeated" and "memory_mib" in found.lacking[0].why


def test_a_run_sealed_again_with_another_key_is_damaged(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "runs")
    said = json.loads((folder / "run.json").read_text())
    said["inputs"]["seed"] = 7
    (folder / "run.json").write_text(json.dumps(said))
    reseal(folder)
    with pytest.raises(Damaged, match="its key"):
        open_run(folder)
    with pytest.raises(Damaged, match="its key"):
        verify(tmp_path / "runs")
