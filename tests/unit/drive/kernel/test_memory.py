"""The folder for a guest's memory: which are tried, what is wrong with each, which is taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labs.drive.kernel import memory
from labs.drive.kernel.memory import available_mib, cache_folder, candidates, memory_folder, refusal
from labs.errors import Missing

VARIABLES = ("LABS_MEMORY_DIR", "XDG_RUNTIME_DIR", "TMPDIR", "XDG_CACHE_HOME", "HOME")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/readers/one")


def folders() -> list[str]:
    return [str(folder) for _, folder in candidates()]


def test_shared_memory_comes_first_and_disks_last() -> None:
    assert folders() == ["/dev/shm", "/readers/one/.cache/labs/memory", "/tmp", "/var/tmp"]


def test_the_users_own_folders_come_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setenv("TMPDIR", "/scratch")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert folders() == [
        "/dev/shm",
        "/run/user/7",
        "/scratch",
        "/cache/labs/memory",
        "/tmp",
        "/var/tmp",
    ]


def test_a_folder_that_is_named_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LABS_MEMORY_DIR", "/mine")
    assert candidates() == (("LABS_MEMORY_DIR", Path("/mine")),)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABS_MEMORY_DIR", "mine")
    assert folders() == [str(tmp_path / "mine")]


def test_relative_folders_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_RUNTIME_DIR", "TMPDIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "relative")
    assert folders() == ["/dev/shm", "/readers/one/.cache/labs/memory", "/tmp", "/var/tmp"]


def test_without_home_the_list_of_users_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    assert cache_folder().is_absolute()


def test_a_user_without_home_or_entry_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert folders() == ["/dev/shm", "/tmp", "/var/tmp"]


def test_a_folder_with_room_is_not_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, 1) is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nonsuch", 1) == "no such file or directory"
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file", 1) == "not a directory"
    requested = 1 << 40
    assert (refusal(tmp_path, requested) or "").endswith(f" MiB free, {requested} MiB needed")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_elses() -> None:
    assert refusal(Path("/"), 1) == "not writable"


def test_the_first_that_can_is_taken_and_the_cache_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[Path] = []

    def all_but_the_cache(folder: Path, memory_mib: int) -> str | None:
        tried.append(folder)
        return None if folder == tmp_path / "labs" / "memory" else "too small"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(memory, "refusal", all_but_the_cache)
    assert memory_folder(4096) == tmp_path / "labs" / "memory"
    assert tried[-1].is_dir()
    assert [str(folder) for folder in tried] == ["/dev/shm", str(tried[-1])]


def test_if_none_can_each_has_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LABS_MEMORY_DIR", str(tmp_path / "nonsuch"))
    with pytest.raises(Missing) as caught:
        memory_folder(4096)
    said = str(caught.value)
    assert said == (
        f"no folder can hold 4096 MiB of guest memory ({tmp_path}/nonsuch: no such "
        "file or directory). Set LABS_MEMORY_DIR to a folder that has room and is not mounted "
        "noexec"
    )


def test_free_memory_is_what_the_kernel_says() -> None:
    assert 0 < available_mib() < 1 << 24
