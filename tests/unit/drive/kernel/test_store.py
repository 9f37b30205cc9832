"""Where kernels are kept and how one is found; the files here are small, and no kernels."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from labs.drive.kernel import store
from labs.drive.kernel.store import WORK, keep, work_folder
from labs.drive.record.lock import LOCK
from labs.drive.record.removal import Made
from labs.errors import BadInput, Damaged, LabError, Missing


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    return store.own_store()


def put(folder: Path, source: str, content: bytes, patch: str = "a.patch") -> str:
    """Keep a program of these bytes; return its digest."""
    sha256 = hashlib.sha256(content).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    with work_folder(folder, 1) as work:
        program = work / "program"
        program.write_bytes(content)
        record = {
            "version": source.split("-")[0],
            "source": source,
            "hz": 250,
            "patches": {patch: hashlib.sha256(b"p").hexdigest()},
        }
        kept = keep(program, record, config="CONFIG_A=y\n", patches={patch: b"p"}, work=work)
    assert store.patches_of(kept) == {patch: b"p"}
    assert kept.sha256 == sha256
    return sha256


def test_find_takes_every_name_of_a_kernel(own: Path) -> None:
    digest = put(own, "6.1.192-2", b"one")
    kernel = store.find("6.1")
    assert kernel == store.Kernel(
        "6.1.192", "6.1.192-2", digest, 250, own / digest / "linux", own / digest
    )
    for spec in ("6.1.192", "6.1.192-2", digest[:8], digest):
        assert store.find(spec) == kernel
    assert sorted(path.name for path in kernel.folder.iterdir()) == [
        "config",
        "kernel.json",
        "linux",
        "patches",
    ]
    assert os.access(kernel.path, os.X_OK)
    assert [path.name for path in own.iterdir()] == [digest]


def test_find_takes_the_newest_of_a_series(own: Path) -> None:
    newest = put(own, "6.1.192-2", b"newest")
    put(own, "6.1.99-1", b"old")
    put(own, "6.12.1-1", b"other series")
    assert store.find("6.1").sha256 == newest
    assert [kernel.source for kernel in store.kernels()] == ["6.12.1-1", "6.1.192-2", "6.1.99-1"]


def test_find_takes_the_last_one_kept_of_a_version(own: Path) -> None:
    first, second = put(own, "6.1.192-2", b"first"), put(own, "6.1.192-2", b"second")
    os.utime(own / first / "kernel.json", (1000, 1000))
    assert store.find("6.1").sha256 == second
    os.utime(own / second / "kernel.json", (500, 500))
    assert store.find("6.1").sha256 == first


def test_find_searches_shared_stores_first(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(own, "6.1.192-2", b"mine")
    elsewhere = put(own, "6.12.1-1", b"only mine")
    theirs = put(tmp_path / "course", "6.1.99-1", b"theirs")
    monkeypatch.setenv("LABS_KERNELS", f"{tmp_path / 'course'}:")
    assert store.find("6.1").sha256 == theirs
    assert store.find("6.12").sha256 == elsewhere


def test_find_takes_a_shared_kernel_whatever_is_wrong_with_the_own_store(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = put(tmp_path / "course", "6.1.99-1", b"theirs")
    monkeypatch.setenv("LABS_KERNELS", str(tmp_path / "course"))
    damaged = put(own, "6.1.192-2", b"mine")
    (own / damaged / "kernel.json").write_text("{")
    assert store.find("6.1").sha256 == theirs
    with pytest.raises(Damaged):
        store.find("6.12")
    shutil.rmtree(own)
    own.touch()  # cannot be read as a folder
    assert store.find(theirs[:8]).sha256 == theirs
    with pytest.raises(Missing, match=r"cannot read .* LABS_KERNELS or XDG_CACHE_HOME"):
        store.find("6.12")


def test_find_refuses_an_own_store_that_others_may_write_to(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(own, "6.1.192-2", b"mine")
    own.chmod(0o755)
    assert store.find("6.1").sha256 and own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o775)
    with pytest.raises(Missing, match="chmod -R go-w"):
        store.find("6.1")
    theirs = put(tmp_path / "course", "6.1.99-1", b"theirs")
    (tmp_path / "course").chmod(0o775)
    monkeypatch.setenv("LABS_KERNELS", str(tmp_path / "course"))
    assert store.find("6.1").sha256 == theirs
    assert (tmp_path / "course").stat().st_mode & 0o777 == 0o775


def test_find_takes_a_shared_kernel_for_a_user_without_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = put(tmp_path / "course", "6.1.99-1", b"theirs")
    monkeypatch.setenv("LABS_KERNELS", str(tmp_path / "course"))
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert store.find("6.1").sha256 == theirs
    with pytest.raises(Missing):
        store.find("6.12")


def test_find_refuses_a_digest_that_two_kernels_begin_with(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(own, "6.1.192-2", b"one")
    put(own, "6.1.192-1", b"two")
    found = store.kernels_of(own)
    alike = tuple(replace(kernel, sha256="01234567" + kernel.sha256[8:]) for kernel in found)
    monkeypatch.setattr(store, "kernels_of", lambda store: alike)
    with pytest.raises(BadInput, match="matches 2 digests"):
        store.find("01234567")


def test_kernels_refuses_a_shared_store_that_does_not_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LABS_KERNELS", "/nowhere/at/all")
    with pytest.raises(BadInput, match="LABS_KERNELS contains /nowhere/at/all"):
        store.kernels()


def test_find_names_what_is_built_and_the_next_step(own: Path) -> None:
    with pytest.raises(Missing, match=r"Built: none\. Next step: labs kernel build 6\.1$"):
        store.find("6.1")
    digest = put(own, "6.1.192-2", b"one")
    with pytest.raises(Missing) as refused:
        store.find("6.12")
    assert str(refused.value) == (
        f"no kernel 6.12 is built. Built: 6.1.192-2 ({digest[:12]}). "
        "Next step: labs kernel build 6.12"
    )
    with pytest.raises(Missing, match="labs kernel list"):
        store.find("00000000")
    with pytest.raises(Missing, match=r"name a supported series \(5\.10, 6\.1, 6\.12, 7\.2\)$"):
        store.find("5.15")


def test_find_refuses_a_program_that_was_changed(own: Path) -> None:
    digest = put(own, "6.1.192-2", b"one")
    (own / digest / "linux").write_bytes(b"two")
    with pytest.raises(Damaged, match=r"labs kernel build 6\.1\.192-2"):
        store.find("6.1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "cannot be read"),
        ('{"schema": 2}', "has schema 2"),
        ('{"schema": 1}', "lacks"),
    ],
)
def test_find_refuses_a_damaged_record(own: Path, text: str, says: str) -> None:
    digest = put(own, "6.1.192-2", b"one")
    (own / digest / "kernel.json").write_text(text)
    with pytest.raises(Damaged, match=says):
        store.find("6.1")


def test_keep_renews_the_record_of_the_same_bytes(own: Path) -> None:
    digest = put(own, "6.1.192-2", b"one")
    assert put(own, "6.1.193-1", b"one", "b.patch") == digest
    assert [path.name for path in (own / digest / "patches").iterdir()] == ["b.patch"]
    assert store.find(digest).source == "6.1.193-1"
    assert [path.name for path in own.iterdir()] == [digest]


def test_work_folder_is_removed_after_an_interrupt(own: Path) -> None:
    with pytest.raises(KeyboardInterrupt), work_folder(own, 1) as work:
        (work / "tree").mkdir()
        assert store.kernels() == ()
        raise KeyboardInterrupt
    assert list(own.iterdir()) == []


def test_work_folder_clears_those_of_killed_builds_alone(own: Path) -> None:
    own.mkdir(parents=True)
    killed = own / f"{WORK}0123456789ab"
    (killed / "tree").mkdir(parents=True)
    made = Made.of(killed)
    (killed / LOCK).write_text(json.dumps({"folder": made}))
    with work_folder(own, 1) as live:
        assert not killed.exists()
        with work_folder(own, 1) as other:
            assert live.exists() and other != live


def test_work_folder_refuses_a_full_disk(own: Path) -> None:
    with (
        pytest.raises(Missing, match=r"needs 1000000000 MiB .* Free some space"),
        work_folder(own, 10**9),
    ):
        pass
    assert list(own.iterdir()) == []


def test_work_folder_refuses_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Missing, match="cannot write to"), work_folder(tmp_path / "file" / "x", 1):
        pass


def test_keep_writes_the_record_as_json(own: Path) -> None:
    digest = put(own, "6.1.192-2", b"one")
    assert json.loads((own / digest / "kernel.json").read_text())["schema"] == store.SCHEMA
    assert store.record(own / digest)["hz"] == 250


def test_find_refuses_in_one_line(own: Path) -> None:
    put(own, "6.1.192-2", b"one")
    for spec in ("6.12", "nonsense", "00000000"):
        with pytest.raises(LabError) as refused:
            store.find(spec)
        assert "\n" not in str(refused.value)
