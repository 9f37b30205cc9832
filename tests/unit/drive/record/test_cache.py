"""Folders of the cache that are made, closed to others, or not used."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.drive.record.cache import NotPrivateError, opened_file, private_folder

KIND = "answers"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a new user, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "labs"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022])
def test_private_folder_is_made_for_its_user_alone(root: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert private_folder(KIND) == root / KIND
    finally:
        os.umask(before)
    assert [mode(root), mode(root / KIND)] == [0o700, 0o700]


def test_private_folder_that_is_not_made_is_missing(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        private_folder(KIND, make=False)
    assert not root.exists()


def test_private_folder_closes_one_of_an_earlier_version(root: Path) -> None:
    (root / KIND).mkdir(parents=True)
    root.chmod(0o775)
    (root / KIND).chmod(0o755)
    (root / KIND / "kept").write_text("content")
    private_folder(KIND)
    assert [mode(root), mode(root / KIND)] == [0o700, 0o700]
    assert (root / KIND / "kept").read_text() == "content"


@pytest.mark.parametrize("others", [0o775, 0o757, 0o1777])
def test_private_folder_refuses_one_that_others_may_write_to(root: Path, others: int) -> None:
    private_folder(KIND).chmod(others)
    with pytest.raises(NotPrivateError, match="chmod -R go-w"):
        private_folder(KIND)
    assert mode(root / KIND) == others


@needs_root
@pytest.mark.parametrize("below", [".", KIND])
def test_private_folder_refuses_one_of_another_user(root: Path, below: str) -> None:
    private_folder(KIND)
    os.chown(root / below, NOBODY, NOBODY)
    with pytest.raises(NotPrivateError, match="another user"):
        private_folder(KIND)


@pytest.mark.parametrize("below", [".", KIND])
def test_private_folder_refuses_a_link(root: Path, tmp_path: Path, below: str) -> None:
    private_folder(KIND)
    (root / below).rename(tmp_path / "elsewhere")
    (root / below).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotPrivateError, match="is a link"):
        private_folder(KIND)


def test_opened_file_translates_no_line_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the flags of Windows, the one for that has the value of another one here."""
    monkeypatch.setattr(os, "O_BINARY", os.O_APPEND, raising=False)
    descriptor = opened_file(KIND, "kept", os.O_WRONLY | os.O_CREAT)
    assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
    os.close(descriptor)


def _give_away(file: Path) -> None:
    os.chown(file, NOBODY, NOBODY)


def _link(file: Path) -> None:
    file.rename(file.with_name("other"))
    file.symlink_to("other")


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_give_away, marks=needs_root),
        lambda file: file.chmod(0o620),
        lambda file: file.chmod(0o602),
        lambda file: os.link(file, file.with_name("other")),
        _link,
        _pipe,
    ],
    ids=["owner", "group", "others", "two names", "link", "pipe"],
)
def test_opened_file_refuses_what_others_may_have_written(
    root: Path, change: Callable[[Path], object]
) -> None:
    os.close(opened_file(KIND, "kept", os.O_WRONLY | os.O_CREAT))
    os.close(opened_file(KIND, "kept", os.O_RDONLY))
    assert mode(root / KIND / "kept") == 0o600
    change(root / KIND / "kept")
    with pytest.raises(OSError, match=r"only this user|symbolic links"):
        opened_file(KIND, "kept", os.O_RDONLY)
