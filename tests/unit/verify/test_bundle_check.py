"""Hostile bundles: refused in one line, with nothing written, fetched or executed."""

from __future__ import annotations

import os
import socket
import zipfile
from pathlib import Path

import pytest

from labs.errors import BadInput, Damaged
from labs.verify.verify import subject_of
from tests import hostile_bundles
from tests.hostile_bundles import HOSTILE, files_of, hostile, made


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("good"))


def test_hostile_bundles_are_many() -> None:
    assert len(HOSTILE) >= 80


@pytest.mark.parametrize("name", HOSTILE)
def test_subject_of_refuses_a_hostile_bundle(
    name: str, good: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = hostile(name, good, tmp_path / "sent")
    outside = sorted(path for path in tmp_path.rglob("*") if temporary not in path.parents)

    def connect(*_: object) -> None:
        raise AssertionError("it connects to the network")

    monkeypatch.setattr(socket.socket, "connect", connect)
    with pytest.raises((Damaged, BadInput)) as caught:
        subject_of(packed)
    assert caught.value.exit_code == (2 if name == "no run" else 6)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 700
    assert sorted(path for path in tmp_path.rglob("*") if temporary not in path.parents) == outside
    assert not Path("/tmp/labs-executed").exists()
    if name in hostile_bundles.OF_ZIP:
        assert not list(temporary.iterdir())  # nothing stays of what was half unpacked


@pytest.mark.parametrize("name", ["own lab", "changed", "script", "part on the network"])
def test_subject_of_refuses_a_hostile_folder(name: str, good: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(hostile(name, good, tmp_path / "sent")) as parcel:
        parcel.extractall(tmp_path / "unpacked")
    with pytest.raises(Damaged):
        subject_of(tmp_path / "unpacked")


@pytest.mark.parametrize("link", ["LICENSE", "notebooks"])
def test_subject_of_refuses_a_link_in_an_unpacked_bundle(
    link: str, good: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(good) as parcel:
        parcel.extractall(tmp_path / "unpacked")
    os.rename(tmp_path / "unpacked" / link, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", tmp_path / "unpacked" / link)
    with pytest.raises(Damaged, match="link"):
        subject_of(tmp_path / "unpacked")


def test_subject_of_accepts_a_good_bundle_packed_and_unpacked(good: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(good) as parcel:
        parcel.extractall(tmp_path / "unpacked")
    for what in (good, tmp_path / "unpacked"):
        subject = subject_of(what)
        assert (subject.files, len(subject.runs), len(subject.notebooks)) == (
            len(files_of(good)),
            2,
            1,
        )
