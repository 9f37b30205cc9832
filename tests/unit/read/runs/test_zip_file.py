"""Runs from zip files: a bundle or a zipped folder is read as the folder is; nothing else is."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import labs
from labs.catalog import find
from labs.errors import BadInput, Damaged
from labs.read.claims.sources import sources_of
from labs.read.runs import packed_limits
from labs.read.runs.archive import is_packed, origin, pack, unpacked
from labs.read.runs.listing import index
from labs.read.runs.run import open_run
from tests.hostile_bundles import made
from tests.run_folders import make_run, make_study


def zipped(folder: Path, out: Path) -> Path:
    return Path(shutil.make_archive(str(out.with_suffix("")), "zip", folder))


def test_a_zipped_folder_of_runs_is_read_as_the_folder(tmp_path: Path) -> None:
    make_study(tmp_path / "some/runs")
    packed = zipped(tmp_path / "some", tmp_path / "x.zip")
    assert is_packed(packed)
    assert [one.name for one in index(packed)] == [
        one.name for one in index(tmp_path / "some/runs")
    ]
    assert labs.runs.compare(packed, tmp_path / "some/runs").grade == "identical"
    run = make_run(tmp_path / "one")
    assert open_run(zipped(tmp_path / "one", tmp_path / "y.zip")).digest == open_run(run).digest


def test_a_bundle_is_read_as_the_folder_of_its_runs(tmp_path: Path) -> None:
    bundle = made(tmp_path)
    runs = tmp_path / "runs"
    assert [one.name for one in index(bundle)] == [one.name for one in index(runs)]
    assert labs.runs.compare(bundle, runs).counts == {
        "compared": 2,
        "only_first": 0,
        "only_second": 0,
    }
    (source,) = sources_of(find("buffers"), bundle)
    assert {run.condition for run in source.runs} == {"default", "both"}
    assert origin(source.runs[0].path) == bundle.resolve()


def test_study_of_a_bundle_that_does_not_exist(tmp_path: Path) -> None:
    p = replace(labs.check("buffers", {}), runs=str(tmp_path / "colleague.zip"))
    with pytest.raises(BadInput, match="there is no packed file"):
        labs.study(p)


def test_unpacked_refuses_a_zip_file_without_runs(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as parcel:
        parcel.writestr("readme.txt", "nothing")
    with pytest.raises(BadInput, match="contains no run"):
        unpacked(tmp_path / "x.zip")


def test_unpacked_refuses_a_zip_file_with_many_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study(tmp_path / "runs")
    packed = zipped(tmp_path / "runs", tmp_path / "x.zip")
    monkeypatch.setattr(packed_limits, "MOST_MEMBERS", 10)
    with pytest.raises(Damaged, match="exceeds the limits"):
        unpacked(packed)


def test_pack_writes_no_zip_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="must end in"):
        pack(make_run(tmp_path / "runs"), tmp_path / "out.zip")
