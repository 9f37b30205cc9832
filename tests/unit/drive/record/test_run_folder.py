"""A run folder: staged, sealed, renamed, verified."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labs.drive.record.run_folder import Staging, clear_stale, run_name
from labs.drive.record.seal import verify
from labs.errors import BadInput, RunFailed
from tests.run_folders import make_run


@pytest.fixture
def umask() -> Iterator[None]:
    """The umask of somebody who shares nothing."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def left(runs: Path) -> list[str]:
    """What is in RUNS, hidden names too."""
    return sorted(entry.name for entry in runs.iterdir())


def test_seal_gives_the_run_its_name(tmp_path: Path) -> None:
    with Staging(tmp_path, "buffers-both-0123") as staging:
        staging.write_json("run.json", {"schema": 1})
        staging.write("server/ss.txt", b"text")
        staging.path("client/deep/capture.pcap").write_bytes(b"packets")
        assert not (tmp_path / "buffers-both-0123").exists()
        folder = staging.seal({"pid": 1})
    assert folder == tmp_path / "buffers-both-0123"
    assert left(tmp_path) == ["buffers-both-0123"]
    assert (folder / "client/deep/capture.pcap").read_bytes() == b"packets"


@pytest.mark.usefixtures("umask")
def test_seal_fixes_the_modes(tmp_path: Path) -> None:
    with Staging(tmp_path, "run") as staging:
        staging.write("server/tool.txt", b"")
        staging.path("server/tool.txt").chmod(0o4700)
        folder = staging.seal({})
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert modes == {
        "run": 0o755,
        "server": 0o755,
        "tool.txt": 0o644,
        "seal.json": 0o644,
        "host.json": 0o644,
    }


def test_staging_leaves_nothing_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Staging(tmp_path, "run") as staging:
        staging.write("server/half.txt", b"half")
        raise RuntimeError
    assert left(tmp_path) == []


def test_seal_refuses_what_is_not_a_plain_file(tmp_path: Path) -> None:
    def link(path: Path) -> None:
        path.symlink_to("/etc/hostname")

    def pipe(path: Path) -> None:
        os.mkfifo(path)

    def unix_socket(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(path.parent):
            listener.bind(path.name)  # an address has at most 107 bytes

    makers: list[Callable[[Path], None]] = [link, pipe, unix_socket]
    for make in makers:
        with Staging(tmp_path, "run") as staging:
            make(staging.path("server/x"))
            with pytest.raises(RunFailed, match=r"run.*/server/x is a link, socket, device"):
                staging.seal({})
        assert left(tmp_path) == []


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "studies", "a b", "-x"])
def test_staging_refuses_other_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput):
        Staging(tmp_path / "runs", name)
    assert left(tmp_path) == []


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../out", "server/../../out", "."])
def test_write_stays_inside_the_run(tmp_path: Path, name: str) -> None:
    with Staging(tmp_path, "run") as staging, pytest.raises(BadInput):
        staging.write(name, b"")


def test_run_name_has_twelve_digits_of_the_key() -> None:
    assert run_name("buffers", "both", "0123456789abcdef") == "buffers-both-0123456789ab"
    with pytest.raises(BadInput):
        run_name("buffers", "../both", "0123456789abcdef")


def test_seal_replaces_an_old_run(tmp_path: Path) -> None:
    old = make_run(tmp_path, note=b"old", host={"n": 1})
    new = make_run(tmp_path, host={"n": 2})
    assert new == old and left(tmp_path) == [new.name]
    assert not (new / "server/note.txt").exists()
    assert json.loads((new / "host.json").read_bytes()) == {"n": 2}
    verify(new)


def test_seal_keeps_an_old_run_that_was_changed_by_hand(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        with Staging(tmp_path, "run") as staging:
            staging.write("note.txt", content)
            folder = staging.seal({})
        if content == b"old":
            (folder / "note.txt").write_bytes(b"changed by hand")
    assert (folder / "note.txt").read_bytes() == b"new"
    (aside,) = (name for name in left(tmp_path) if name != "run")
    assert (tmp_path / aside / "note.txt").read_bytes() == b"changed by hand"


def test_staging_refuses_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for runs in (
        tmp_path / "file/runs",
        tmp_path / "file",
        Path("/proc/runs"),
        tmp_path / ("long" * 100),
    ):
        with pytest.raises(BadInput, match=r"cannot be written .* with --into DIR"):
            Staging(runs, "run")
    with pytest.raises(BadInput, match="is not a run"), Staging(tmp_path, "file") as staging:
        staging.seal({})
    assert left(tmp_path) == ["file"]


def test_staging_twice_under_one_name(tmp_path: Path) -> None:
    with Staging(tmp_path, "run") as one, Staging(tmp_path, "run") as other:
        assert one.folder != other.folder
        one.write("x", b"1")
        other.write("x", b"2")
        one.seal({})
        assert clear_stale(tmp_path) == []
        folder = other.seal({})
    assert (folder / "x").read_bytes() == b"2" and left(tmp_path) == ["run"]
