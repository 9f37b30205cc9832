"""Copies that are told by content: made, used again, mended."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.drive.kernel import kept_copy as copies
from labs.drive.kernel.kept_copy import LIST, File, Kept, check, content_digest, file, kept_copy
from labs.errors import Missing, RunFailed

PYTHON = (sys.executable,)
CONTENT = {"pkg/__init__.py": b"", "pkg/one.py": b"ONE = 1\n", "etc/hosts": b"127.0.0.1 me\n"}
FILES = {name: file(content) for name, content in CONTENT.items()}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "labs"


def kept() -> Kept:
    return kept_copy("things", FILES, PYTHON, links={"lib": "pkg"}, folders=("run",))


def made() -> Path:
    return kept().folder


def shown(copy: Path) -> dict[str, bytes]:
    """The files of a copy but for what was compiled."""
    return {
        str(path.relative_to(copy)): path.read_bytes()
        for path in copy.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and "lib" not in path.relative_to(copy).parts
    }


def test_kept_copy_has_the_files_links_and_folders_and_is_compiled() -> None:
    copy = made()
    assert shown(copy) == CONTENT
    assert os.readlink(copy / "lib") == "pkg" and (copy / "run").is_dir()
    assert [path.name for path in copy.rglob("one.*.pyc") if "lib" not in path.parts[-3:]]


def test_kept_copy_is_made_once(cache: Path) -> None:
    first = made().stat()
    assert os.path.samestat(first, made().stat())
    (only,) = (cache / "things").iterdir()
    assert only / "copy" == made()


def test_kept_copy_takes_files_as_well_as_bytes(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o755)
    copy = kept_copy("things", {"bin/program": file(program, executable=True)}, PYTHON).folder
    assert (copy / "bin/program").stat().st_mode & stat.S_IXUSR
    assert file(program) == File(program, file(b"#!/bin/sh\n").digest)


def test_kept_copy_has_the_same_modes_and_times_whatever_those_of_the_files(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/sh\n")
    seen = []
    for umask, mode, place in ((0o022, 0o755, "one"), (0o077, 0o700, "two")):
        program.chmod(mode)
        os.environ["XDG_CACHE_HOME"] = str(tmp_path / place)
        before = os.umask(umask)
        try:
            files = {"bin/program": file(program, executable=True), **FILES}
            copy = kept_copy("things", files, PYTHON, folders=("run",)).folder
        finally:
            os.umask(before)
        seen.append(
            {
                str(path.relative_to(copy)): (path.lstat().st_mode, path.lstat().st_mtime_ns)
                for path in (copy, *copy.rglob("*"))
            }
        )
    assert seen[0] == seen[1]
    assert oct(seen[0]["bin/program"][0]) == "0o100755" and oct(seen[0]["run"][0]) == "0o40755"


def test_kept_copy_names_links_folders_and_modes_apart() -> None:
    program = {"bin/it": file(b"it", executable=True)}
    copies = {
        kept_copy("things", files, PYTHON, links=links, folders=folders).folder.parent.name
        for files, links, folders in (
            (program, {}, ()),
            ({"bin/it": file(b"it")}, {}, ()),
            (program, {"lib": "bin"}, ()),
            (program, {}, ("lib",)),
        )
    }
    assert len(copies) == 4


def test_kept_copy_refuses_a_file_that_changed_since_it_was_planned(
    tmp_path: Path, cache: Path
) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"one")
    planned = {"bin/program": file(program)}
    program.write_bytes(b"other")
    with pytest.raises(RunFailed, match="bin/program"):
        kept_copy("things", planned, PYTHON)
    assert list((cache / "things").iterdir()) == []


def test_kept_copy_of_a_file_that_is_gone_is_missing_and_named(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"one")
    planned = {"bin/program": file(program)}
    program.unlink()
    with pytest.raises(Missing, match="program"):
        kept_copy("things", planned, PYTHON)
    with pytest.raises(Missing, match="program"):
        file(program)


def test_kept_copy_without_room_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(Missing, match="No space left"):
        made()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "another content": lambda copy: (copy / "pkg/one.py").write_bytes(b"ONE = 2\n"),
    "a truncated file": lambda copy: os.truncate(copy / "pkg/one.py", 3),
    "a file that is gone": lambda copy: (copy / "etc/hosts").unlink(),
    "a file too many": lambda copy: (copy / "pkg/two.py").write_bytes(b""),
    "a link too many": lambda copy: (copy / "pkg/two.py").symlink_to("one.py"),
    "a pipe too many": lambda copy: os.mkfifo(copy / "pkg/two.py"),
    "a folder of another name": lambda copy: (copy / "pkg").rename(copy / "lib2"),
    "compiled from something else": lambda copy: next(copy.rglob("one.*.pyc")).write_bytes(b"x"),
    "another mode": lambda copy: (copy / "etc/hosts").chmod(0o600),
    "a folder that is gone": lambda copy: (copy / "run").rmdir(),
    "a folder too many": lambda copy: (copy / "more").mkdir(),
    "no list": lambda copy: (copy.parent / LIST).unlink(),
    "a list that is none": lambda copy: (copy.parent / LIST).write_text("[" * 100_000),
    "no copy": lambda copy: shutil.rmtree(copy),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_kept_copy_mends_what_was_damaged(damage: str, cache: Path) -> None:
    copy = made()
    DAMAGE[damage](copy)
    mended = made()
    assert mended == copy and shown(mended) == CONTENT and os.readlink(mended / "lib") == "pkg"
    assert next(mended.rglob("one.*.pyc")).stat().st_size > 10
    assert len(list((cache / "things").iterdir())) == 1


def test_kept_copy_sees_a_change_that_keeps_size_and_time() -> None:
    copy = made()
    one = copy / "pkg/one.py"
    about = one.stat()
    one.write_bytes(b"ONE = 9\n")
    os.utime(one, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert shown(made()) == CONTENT


def test_kept_copy_without_a_cache_that_can_be_written_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(Missing):
        made()


def test_kept_copy_in_a_folder_that_others_may_write_to_is_missing(cache: Path) -> None:
    made()
    (cache / "things").chmod(0o775)
    with pytest.raises(Missing, match="chmod -R go-w"):
        made()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_kept_copy_replaces_one_of_another_user() -> None:
    kept = made().parent
    os.chown(kept, 65534, 65534)
    assert shown(made()) == CONTENT and kept.stat().st_uid == 0


def test_content_digest_reads_a_file_again_once_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"one")
    first = content_digest(path)
    path.write_bytes(b"two")
    assert first == content_digest(b"one") and content_digest(path) == content_digest(b"two")


def test_kept_copy_refuses_code_that_does_not_compile(cache: Path) -> None:
    with pytest.raises(RunFailed, match=r"one\.py.*SyntaxError") as refused:
        kept_copy("things", {"one.py": file(b"def measure(:\n")}, PYTHON)
    assert "\n" not in str(refused.value) and list((cache / "things").iterdir()) == []


@pytest.mark.parametrize("damage", [one for one in DAMAGE if "list" not in one])
@pytest.mark.parametrize("mended", [False, True])
def test_check_refuses_a_copy_that_was_changed(damage: str, mended: bool) -> None:
    used = kept()
    copy = used.folder
    check(used)
    DAMAGE[damage](copy)
    if mended:
        made()
    with pytest.raises(RunFailed) as refused:
        check(used)
    assert str(copy) in str(refused.value) and "\n" not in str(refused.value)


def test_check_refuses_a_file_that_was_changed_once_it_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = made() / "pkg/one.py"
    read = copies._file_digest

    def read_and_change(path: str, *state: int) -> str:
        digest = read(path, *state)
        if path == str(one):
            one.write_bytes(b"ONE = 9\n")
        return digest

    monkeypatch.setattr(copies, "_file_digest", read_and_change)
    used = kept()
    with pytest.raises(RunFailed, match=r"one\.py was changed while a run used it"):
        check(used)


MAKER = """
import sys
from pathlib import Path
from labs.drive.kernel import kept_copy
def stop(*given):
    print("making", flush=True)
    sys.stdin.read()
kept_copy._make = stop
kept_copy.kept_copy("things", {"two.py": kept_copy.file(b"")}, (sys.executable,))
"""


def test_kept_copy_clears_what_a_killed_process_left(cache: Path) -> None:
    made()
    with subprocess.Popen(
        (sys.executable, "-c", MAKER),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    ) as maker:
        assert maker.stdout is not None and maker.stdout.readline()
        maker.kill()
    assert list((cache / "things").glob(".making-*"))
    made()
    assert [path.name.startswith(".") for path in (cache / "things").iterdir()] == [False]


def test_kept_copy_clears_copies_that_were_not_used_for_a_week(cache: Path) -> None:
    old = kept_copy("things", {"old.py": file(b"")}, PYTHON).folder
    recent = kept_copy("things", {"recent.py": file(b"")}, PYTHON).folder
    things, elsewhere = cache / "things", cache / "elsewhere"
    elsewhere.mkdir()
    (things / "mine").mkdir()
    for folder in (elsewhere, things / "mine"):
        (folder / LIST).touch()
    (things / f"{'0a' * 32}-00000000").symlink_to(elsewhere)
    long_ago = time.time() - 8 * 24 * 3600
    for path in (old.parent / LIST, elsewhere / LIST, things / "mine" / LIST):
        os.utime(path, (long_ago, long_ago))
    assert kept_copy("things", {"recent.py": file(b"")}, PYTHON).folder == recent
    assert not old.exists() and recent.exists()
    assert (elsewhere / LIST).exists() and (things / "mine" / LIST).exists()


def test_kept_copy_is_not_cleared_when_it_is_used_again_after_a_week(cache: Path) -> None:
    inode = made().stat().st_ino
    (kept,) = (cache / "things").iterdir()
    long_ago = time.time() - 8 * 24 * 3600
    for path in (kept / LIST, kept):
        os.utime(path, (long_ago, long_ago))
    assert made().stat().st_ino == inode
