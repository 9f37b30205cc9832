"""Whatever is planted where this lab removes, renames or changes modes: what it did not make stays.

The planted folders carry exactly the names that this lab uses for its own leftovers.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.drive.record.disk import clear_folders, clear_unfinished, owned_folder, write_whole
from labs.drive.record.lock import LOCK
from labs.drive.record.removal import Made, empty_folder, remove_folder
from labs.drive.record.run_folder import Staging, clear_stale
from labs.drive.record.seal import HOST, SEAL
from labs.drive.record.study_file import Planned, write_study
from labs.errors import BadInput, RunFailed

ROOT = Path(__file__).parents[4]
STRANGER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


def home(tmp_path: Path) -> Path:
    """A folder that is not this lab's, with a file and a folder in it."""
    folder = tmp_path / "home"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/letter.txt").write_text("dear")
    (folder / "photo.txt").write_text("me")
    return folder


def is_whole(folder: Path) -> bool:
    return (folder / "deep/letter.txt").read_text() == "dear" and (
        folder / "photo.txt"
    ).read_text() == "me"


def noted(folder: Path, lock: Path, what: str) -> None:
    """A lock that names a folder, as one of a killed process does."""
    made = Made.of(folder)
    lock.write_text(json.dumps({what: made}))
    lock.chmod(0o600)


@pytest.mark.parametrize("name", [".staging-x-1-1", ".replaced-x-1-1"])
@pytest.mark.parametrize("lock", ["none", "empty", "of the folder"])
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_clear_stale_leaves_what_was_planted(
    tmp_path: Path, name: str, lock: str, kind: str
) -> None:
    """A lock counts only for the folder that it names: a copied or unpacked one does not."""
    runs, victim = tmp_path / "runs", home(tmp_path)
    runs.mkdir()
    if kind == "link":
        (runs / name).symlink_to("../home")
    else:
        victim = shutil.copytree(victim, runs / name)
    if lock == "empty":
        (runs / ".lock-x-1-1").touch(0o600)
    elif lock == "of the folder":  # of the folder that was copied, or that the link points to
        noted(tmp_path / "home", runs / ".lock-x-1-1", name.split("-")[0].lstrip("."))
    assert clear_stale(runs) == []
    assert is_whole(victim) and os.path.lexists(runs / name)


def test_clear_stale_removes_what_a_lock_names(tmp_path: Path) -> None:
    folder = home(tmp_path).rename(tmp_path / ".staging-x-1-1")
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "kept.txt").write_text("kept")
    (folder / "deep/link").symlink_to(outside)
    (folder / "deep/file").symlink_to(outside / "kept.txt")
    os.link(outside / "kept.txt", folder / "hard")
    noted(folder, tmp_path / ".lock-x-1-1", "staging")
    assert clear_stale(tmp_path) == ["x"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["outside"]
    assert (outside / "kept.txt").read_text() == "kept" and (outside / "deep").is_dir()
    assert (outside / "kept.txt").stat().st_nlink == 1


@needs_root
def test_clear_stale_leaves_the_folders_and_locks_of_others(tmp_path: Path) -> None:
    folder, lock = home(tmp_path).rename(tmp_path / ".staging-x-1-1"), tmp_path / ".lock-x-1-1"
    noted(folder, lock, "staging")
    for planted in (folder, lock):
        os.chown(planted, STRANGER, STRANGER)
        assert clear_stale(tmp_path) == [] and is_whole(folder)
        os.chown(planted, 0, 0)
        noted(folder, lock, "staging")
    assert clear_stale(tmp_path) == ["x"]


def test_clear_stale_leaves_a_lock_with_a_second_name(tmp_path: Path) -> None:
    """A hard link of another file under the name of a lock: it would be written and removed."""
    folder, letter = home(tmp_path).rename(tmp_path / ".staging-x-1-1"), tmp_path / "letter"
    noted(folder, letter, "staging")
    os.link(letter, tmp_path / ".lock-x-1-1")
    assert clear_stale(tmp_path) == []
    assert is_whole(folder) and letter.stat().st_nlink == 2


@pytest.mark.parametrize("where", ["top", "inside"])
def test_remove_folder_leaves_what_is_mounted(tmp_path: Path, where: str) -> None:
    """A bind mount has the st_dev of the file system that it shows; its mount differs."""
    victim, folder = home(tmp_path), tmp_path / "ours"
    at = folder if where == "top" else folder / "deep/er"
    at.mkdir(parents=True)
    script = (
        "import sys; from pathlib import Path\n"
        "from labs.drive.record.removal import Made, remove_folder\n"
        f"folder = Path({str(folder)!r})\n"
        "print(remove_folder(folder, Made.of(folder)))\n"
    )
    alone = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "-r", "--mount")
    mounted = ("sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh")
    done = subprocess.run(
        (*alone, *mounted, str(victim), str(at), sys.executable, "-c", script),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    assert done.stdout == "False\n"
    assert is_whole(victim) and at.is_dir()


def test_remove_folder_follows_no_link() -> None:
    """Links are refused by Python's own removal, even one that is planted in its course."""
    assert shutil.rmtree.avoids_symlink_attacks


def test_remove_folder_that_is_not_the_one_that_was_made(tmp_path: Path) -> None:
    victim = home(tmp_path)
    made = Made.of(victim / "deep")
    assert not remove_folder(victim, made) and not empty_folder(victim, made, keep="photo.txt")
    assert is_whole(victim)
    assert empty_folder(victim, Made.of(victim), keep="photo.txt")
    assert [entry.name for entry in victim.iterdir()] == ["photo.txt"]
    assert remove_folder(victim, Made.of(victim)) and not victim.exists()


@pytest.mark.parametrize("mark", ["none", "copied", "link"])
def test_clear_folders_leaves_what_was_planted(tmp_path: Path, mark: str) -> None:
    victim, planted = home(tmp_path), tmp_path / "labs-boot-0123456789ab"
    if mark == "link":
        noted(victim, victim / LOCK, "folder")
        planted.symlink_to(victim)
    else:
        shutil.copytree(victim, planted)
        if mark == "copied":
            noted(victim, planted / LOCK, "folder")
    clear_folders("labs-boot-", tmp_path)
    assert is_whole(victim) and is_whole(planted)


def test_clear_folders_removes_a_killed_owners(tmp_path: Path) -> None:
    with owned_folder("labs-boot-", tmp_path) as folder:
        (folder / "deep").mkdir()
        clear_folders("labs-boot-", tmp_path)
        assert (folder / "deep").is_dir()  # its owner lives
    owner = (
        "import os, signal, sys; from pathlib import Path\n"
        "from labs.drive.record.disk import owned_folder\n"
        "with owned_folder('labs-boot-', Path(sys.argv[1])) as folder:\n"
        "    (folder / 'deep').mkdir(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run((sys.executable, "-c", owner, str(tmp_path)), cwd=ROOT)
    (left,) = tmp_path.iterdir()
    assert (left / "deep").is_dir()
    clear_folders("labs-boot-", tmp_path)
    assert list(tmp_path.iterdir()) == []


def plant_link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def plant_hard_link(path: Path, target: Path) -> None:
    os.link(target, path)


def plant_own_name(path: Path, target: Path) -> None:
    path.write_text("my own notes")
    path.chmod(0o644)


@pytest.mark.parametrize("plant", [plant_link, plant_hard_link, plant_own_name])
def test_clear_unfinished_leaves_what_was_planted(
    tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    target, planted = home(tmp_path) / "photo.txt", tmp_path / ".new-page.html-1-1"
    plant(planted, target)
    clear_unfinished(tmp_path, "*")
    assert os.path.lexists(planted) and target.read_text() == "me"


def test_write_whole_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    target, out = home(tmp_path) / "photo.txt", tmp_path / "page.html"
    for plant in (plant_link, plant_hard_link):
        plant(out, target)
        write_whole(out, b"new")
        assert out.read_bytes() == b"new" and target.read_text() == "me"
        out.unlink()


def test_write_study_never_writes_through_a_link(tmp_path: Path) -> None:
    victim, runs = home(tmp_path), tmp_path / "runs"
    runs.mkdir()
    (runs / "studies").symlink_to(victim)
    with pytest.raises(BadInput, match="studies"):
        write_study(runs, "buffers", {"seed": 1}, [Planned("both", "0" * 64)])
    assert is_whole(victim) and sorted(os.listdir(victim)) == ["deep", "photo.txt"]


@pytest.mark.parametrize("name", [HOST, SEAL])
@pytest.mark.parametrize("plant", [plant_link, plant_hard_link, plant_own_name])
def test_seal_refuses_its_own_names(
    tmp_path: Path, name: str, plant: Callable[[Path, Path], None]
) -> None:
    target = home(tmp_path) / "photo.txt"
    with Staging(tmp_path / "runs", "run") as staging:
        plant(staging.folder / name, target)
        with pytest.raises(RunFailed, match=name):
            staging.seal({})
    assert target.read_text() == "me" and list((tmp_path / "runs").iterdir()) == []


def test_seal_changes_no_mode_through_a_hard_link(tmp_path: Path) -> None:
    target = home(tmp_path) / "photo.txt"
    target.chmod(0o600)
    with Staging(tmp_path / "runs", "run") as staging:
        os.link(target, staging.folder / "photo.txt")
        with pytest.raises(RunFailed, match="several names"):
            staging.seal({})
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@needs_root
def test_seal_refuses_a_device(tmp_path: Path) -> None:
    with Staging(tmp_path, "run") as staging:
        try:
            os.mknod(staging.folder / "disk", stat.S_IFBLK | 0o600, os.makedev(7, 200))
        except PermissionError as error:
            pytest.skip(f"no devices can be made here: {error}")
        with pytest.raises(RunFailed, match="disk is a link, socket, device"):
            staging.seal({})


def test_seal_of_a_folder_that_was_replaced_by_a_link(tmp_path: Path) -> None:
    victim, runs = home(tmp_path), tmp_path / "runs"
    with Staging(runs, "run") as staging:
        staging.folder.rename(tmp_path / "moved")
        staging.folder.symlink_to(victim)
        with pytest.raises(RunFailed, match="was replaced"):
            staging.seal({})
    assert is_whole(victim) and sorted(os.listdir(victim)) == ["deep", "photo.txt"]


def test_seal_keeps_what_was_added_to_an_old_run(tmp_path: Path) -> None:
    for note in ("first", "second"):
        with Staging(tmp_path, "run") as staging:
            staging.write("note.txt", note.encode())
            staging.write_json("run.json", {})
            folder = staging.seal({})
        (folder / "mine.txt").write_text(note)
    assert (folder / "note.txt").read_text() == "second"
    (kept,) = tmp_path.glob(".changed-*")
    assert (kept / "mine.txt").read_text() == (kept / "note.txt").read_text() == "first"
    assert clear_stale(tmp_path) == [] and kept.is_dir()


@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_seal_refuses_the_name_of_what_is_not_a_run(tmp_path: Path, kind: str) -> None:
    victim, runs = home(tmp_path), tmp_path / "runs"
    with Staging(runs, "run") as staging:
        if kind == "folder":
            victim = victim.rename(runs / "run")
        elif kind == "link":
            (runs / "run").symlink_to(victim)
        else:
            (runs / "run").write_text("mine")
        with pytest.raises(BadInput, match="is not a run"):
            staging.seal({})
    assert is_whole(victim) and [entry.name for entry in runs.iterdir()] == ["run"]


def test_clear_stale_says_what_it_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    noted(home(tmp_path).rename(tmp_path / ".staging-x-1-1"), tmp_path / ".lock-x-1-1", "staging")
    clear_stale(tmp_path)
    (line,) = caplog.messages
    assert "x" in line and str(tmp_path) in line and "\n" not in line
