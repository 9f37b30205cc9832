"""A run folder: staged, sealed, renamed, verified."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labs.drive.record.canonical import canonical, digest
from labs.drive.record.run_folder import Staging, clear_stale, read_seal, run_name, verify
from labs.errors import BadInput, Damaged, LabError, RunFailed
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


def test_a_run_has_its_name_only_when_it_is_sealed(tmp_path: Path) -> None:
    with Staging(tmp_path, "buffers-both-0123") as staging:
        staging.write_json("run.json", {"schema": 1})
        staging.write("server/ss.txt", b"text")
        staging.path("client/deep/capture.pcap").write_bytes(b"packets")
        assert not (tmp_path / "buffers-both-0123").exists()
        folder = staging.seal({"pid": 1})
    assert folder == tmp_path / "buffers-both-0123"
    assert left(tmp_path) == ["buffers-both-0123"]
    assert (folder / "client/deep/capture.pcap").read_bytes() == b"packets"


def test_the_seal_names_every_file_but_those_of_this_machine(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    seal = json.loads((folder / "seal.json").read_bytes())
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(seal["files"]) == files - {"seal.json", "host.json"}
    assert seal["digest"] == digest(canonical(seal["files"])) == read_seal(folder).digest
    assert seal["files"]["run.json"] == digest(folder / "run.json")


def test_two_runs_of_the_same_bytes_have_one_digest(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a", host={"pid": 1, "real_s": 2.5})
    other = make_run(tmp_path / "b", host={"pid": 2, "load": [0.1]})
    assert verify(one) == verify(other)
    assert (one / "seal.json").read_bytes() == (other / "seal.json").read_bytes()
    assert verify(make_run(tmp_path / "c", note=b"x")).digest != verify(one).digest


@pytest.mark.usefixtures("umask")
def test_modes_do_not_depend_on_who_made_the_run(tmp_path: Path) -> None:
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


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Staging(tmp_path, "run") as staging:
        staging.write("server/half.txt", b"half")
        raise RuntimeError
    assert left(tmp_path) == []


def test_what_is_no_plain_file_is_not_sealed(tmp_path: Path) -> None:
    def link(path: Path) -> None:
        path.symlink_to("/etc/hostname")

    def pipe(path: Path) -> None:
        os.mkfifo(path)

    def unix_socket(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))

    makers: list[Callable[[Path], None]] = [link, pipe, unix_socket]
    for make in makers:
        with Staging(tmp_path, "run") as staging:
            make(staging.path("server/x"))
            with pytest.raises(RunFailed, match=r"run.*/server/x is a link, socket or device"):
                staging.seal({})
        assert left(tmp_path) == []


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "studies", "a b", "-x"])
def test_names_that_cannot_be_folders_of_runs(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput):
        Staging(tmp_path / "runs", name)
    assert left(tmp_path) == []


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../out", "server/../../out", "."])
def test_files_stay_inside_the_run(tmp_path: Path, name: str) -> None:
    with Staging(tmp_path, "run") as staging, pytest.raises(BadInput):
        staging.write(name, b"")


def test_the_name_of_a_run() -> None:
    assert run_name("buffers", "both", "0123456789abcdef") == "buffers-both-0123456789ab"
    with pytest.raises(BadInput):
        run_name("buffers", "../both", "0123456789abcdef")


def test_a_fresh_run_replaces_the_old_one(tmp_path: Path) -> None:
    old = make_run(tmp_path, note=b"old", host={"n": 1})
    new = make_run(tmp_path, host={"n": 2})
    assert new == old and left(tmp_path) == [new.name]
    assert not (new / "server/note.txt").exists()
    assert json.loads((new / "host.json").read_bytes()) == {"n": 2}
    verify(new)


def test_an_old_run_may_be_kept(tmp_path: Path) -> None:
    for old, kept in ((b"old", b"old"), (None, b"new")):
        with Staging(tmp_path, "run") as staging:
            staging.write("note.txt", b"old")
            folder = staging.seal({})
        if old is None:
            (folder / "note.txt").write_bytes(b"changed by hand")
        with Staging(tmp_path, "run") as staging:
            staging.write("note.txt", b"new")
            assert staging.seal({}, replace=False) == folder
        assert (folder / "note.txt").read_bytes() == kept
        assert left(tmp_path) == ["run"]


def test_runs_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for runs in (
        tmp_path / "file/runs",
        tmp_path / "file",
        Path("/proc/runs"),
        tmp_path / ("long" * 100),
    ):
        with pytest.raises(BadInput, match=r"cannot be written .* with --into DIR"):
            Staging(runs, "run")
    with pytest.raises(BadInput, match="cannot be written"), Staging(tmp_path, "file") as staging:
        staging.seal({})
    assert left(tmp_path) == ["file"]


def test_two_of_one_name_can_be_made_at_once(tmp_path: Path) -> None:
    with Staging(tmp_path, "run") as one, Staging(tmp_path, "run") as other:
        assert one.folder != other.folder
        one.write("x", b"1")
        other.write("x", b"2")
        one.seal({})
        assert clear_stale(tmp_path) == []
        folder = other.seal({})
    assert (folder / "x").read_bytes() == b"2" and left(tmp_path) == ["run"]


def change(folder: Path) -> None:
    (folder / "server/nginx.conf").write_bytes(b"worker_processes 2;\n")


def remove(folder: Path) -> None:
    (folder / "server/nginx.conf").unlink()


def add(folder: Path) -> None:
    (folder / "server/nginx.conf.bak").write_bytes(b"")


def link(folder: Path) -> None:
    path = folder / "server/nginx.conf"
    path.rename(folder.parent / "elsewhere")
    path.symlink_to(folder.parent / "elsewhere")


def replace_by_folder(folder: Path) -> None:
    remove(folder)
    (folder / "server/nginx.conf").mkdir()


@pytest.mark.parametrize(
    ("by_hand", "what"),
    [
        (change, "server/nginx.conf was changed"),
        (remove, "server/nginx.conf is missing"),
        (add, "server/nginx.conf.bak was added"),
        (link, "server/nginx.conf was changed"),
        (replace_by_folder, "server/nginx.conf is missing"),
    ],
)
def test_what_was_done_by_hand_is_found(
    tmp_path: Path, by_hand: Callable[[Path], None], what: str
) -> None:
    folder = make_run(tmp_path)
    by_hand(folder)
    with pytest.raises(Damaged, match=what) as caught:
        verify(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_the_first_by_name_is_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (folder / "zz").write_bytes(b"")
    (folder / "server/nginx.conf").write_bytes(b"")
    (folder / "client/fetch.json").unlink()
    with pytest.raises(Damaged, match=r"client/fetch\.json is missing"):
        verify(folder)


def test_this_machines_file_may_change_or_go(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (folder / "host.json").write_bytes(b"{}")
    verify(folder)
    (folder / "host.json").unlink()
    verify(folder)


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        (b"", Damaged, "is not JSON"),
        (b"[]", Damaged, "is not a JSON object"),
        (b'{"schema":2}', BadInput, "schema 2, and this version of labs reads schema 1"),
        (b'{"files":{}}', BadInput, "no schema version"),
        (b'{"schema":true,"files":{}}', BadInput, "no schema version"),
        (b'{"schema":1,"files":{"run.json":"00"},"digest":"00"}', Damaged, "was changed"),
        (b'{"schema":1,"digest":"00"}', Damaged, "was changed"),
        (b'{"schema":1,"files":{},"files":{},"digest":"00"}', Damaged, "is not JSON"),
    ],
)
def test_seals_that_are_none(tmp_path: Path, text: bytes, error: type[LabError], what: str) -> None:
    folder = make_run(tmp_path)
    (folder / "seal.json").write_bytes(text)
    with pytest.raises(error, match=what):
        read_seal(folder)


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a folder"):
        read_seal(tmp_path / "nothing")
    with pytest.raises(BadInput, match="is not a run"):
        read_seal(tmp_path)
    folder = make_run(tmp_path)
    (folder / "seal.json").unlink()
    with pytest.raises(Damaged, match=r"seal\.json is missing"):
        verify(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    (folder / "server/nginx.conf").chmod(0)
    with pytest.raises(Damaged, match=r"nginx\.conf cannot be read \(Permission denied\)"):
        verify(folder)
    (folder / "server").chmod(0)
    with pytest.raises(Damaged, match=r"server cannot be read \(Permission denied\)"):
        verify(folder)
    (folder / "server").chmod(0o755)


def test_a_copy_is_the_same_run(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    shutil.copytree(folder, tmp_path / "copy")
    assert verify(tmp_path / "copy") == verify(folder)
