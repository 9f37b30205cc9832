"""Recorded data is unpacked once for all processes, and never read if it was changed since."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.drive.record.cache import KEPT_S
from labs.drive.record.seal import digest
from labs.errors import Damaged
from labs.read.runs import kept_content as kept
from labs.read.runs.archive import pack, unpacked
from labs.read.runs.kept_content import CONTENT, LIST, SUMS, kept_content
from tests.run_folders import make_study

Expand = Callable[[Path], None]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "labs" / "unpacked"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A packed file of the recorded data of the package."""
    monkeypatch.setattr(kept, "FOLDERS", (tmp_path / "data",))
    make_study(tmp_path / "runs")
    (tmp_path / "data").mkdir()
    packed = pack(tmp_path / "runs", tmp_path / "data" / "lab.tar.xz").path
    (packed.parent / SUMS).write_text(f"{digest(packed)}  {packed.name}\n")
    return packed


@pytest.fixture
def expand() -> Expand:
    def write(content: Path) -> None:
        (content / "run").mkdir(parents=True)
        (content / "run" / "a.txt").write_text("a")
        (content / "run" / "b.txt").write_text("b")

    return write


def refuse(content: Path) -> None:
    raise AssertionError(f"{content} is unpacked, although it is kept")


def test_second_process_reads_what_the_first_unpacked(data: Path, cache: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from labs.read.runs.archive import unpacked\n"
        "from labs.read.runs import kept_content as kept\n"
        "kept.FOLDERS = (Path(sys.argv[1]).parent,)\n"
        "found = unpacked(Path(sys.argv[1])); print(found, found.stat().st_mtime_ns)"
    )
    said = {
        subprocess.run((sys.executable, "-c", code, data), check=True, capture_output=True).stdout
        for _ in range(2)
    }
    (one,) = said
    assert one.decode().startswith(str(cache / digest(data) / CONTENT))


def test_file_that_is_no_recorded_data_is_not_kept(data: Path, cache: Path, expand: Expand) -> None:
    (data.parent / SUMS).write_text(f"{'0' * 64}  {data.name}\n")
    assert kept_content(data, expand) is None
    assert unpacked(data).is_dir()
    assert not cache.exists()


def test_data_of_somebody_else_are_not_kept(
    data: Path, cache: Path, expand: Expand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle, too, has a list of checksums beside its packed runs."""
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parents[1]))
    assert kept_content(data, expand) is None
    assert unpacked(data).is_dir()
    assert not cache.exists()


@pytest.mark.parametrize("change", ["content", "removed", "added", "mode", "link", "folder"])
def test_changed_content_is_replaced(
    change: str, data: Path, cache: Path, expand: Expand, tmp_path: Path
) -> None:
    found = kept_content(data, expand)
    assert found is not None
    assert kept_content(data, refuse) == found
    file = found / "run" / "a.txt"
    if change == "content":
        before = file.stat()
        file.write_text("c")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "removed":
        file.unlink()
    elif change == "added":
        (found / "run" / "c.txt").write_text("c")
    elif change == "mode":
        file.chmod(0o600)
    elif change == "link":
        shutil.move(found.parent, tmp_path / "elsewhere")
        found.parent.symlink_to(tmp_path / "elsewhere")
    else:
        shutil.copytree(found.parent, tmp_path / "copy")
        shutil.rmtree(found.parent)
        shutil.move(tmp_path / "copy", found.parent)
    assert kept_content(data, expand) == found
    assert {path.name: path.read_text() for path in (found / "run").iterdir()} == {
        "a.txt": "a",
        "b.txt": "b",
    }
    assert kept_content(data, refuse) == found
    assert sorted(path.name for path in cache.iterdir()) == [digest(data)]


def test_content_of_a_faster_process_is_taken(data: Path, cache: Path, expand: Expand) -> None:
    def slowly(content: Path) -> None:
        assert kept_content(data, expand) == cache / digest(data) / CONTENT  # the faster process
        expand(content)

    found = kept_content(data, slowly)
    assert found == cache / digest(data) / CONTENT
    assert kept_content(data, refuse) == found


def test_damaged_file_leaves_nothing(data: Path, cache: Path) -> None:
    data.write_bytes(data.read_bytes()[:-100])
    (data.parent / SUMS).write_text(f"{digest(data)}  {data.name}\n")
    with pytest.raises(Damaged, match="truncated"):
        unpacked(data)
    assert list(cache.iterdir()) == []


def test_without_a_cache_nothing_is_kept(
    data: Path, expand: Expand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kept_content(data, expand) is None
    assert unpacked(data).is_dir()


def test_nothing_is_kept_where_others_may_write(data: Path, cache: Path, expand: Expand) -> None:
    assert kept_content(data, expand) is not None
    cache.chmod(0o775)
    assert kept_content(data, expand) is None


def test_content_that_was_not_used_for_a_week_is_removed(
    data: Path, cache: Path, expand: Expand, caplog: pytest.LogCaptureFixture
) -> None:
    found = kept_content(data, expand)
    assert found is not None
    other = cache / ("0" * 64)
    (other / CONTENT).mkdir(parents=True)
    (other / LIST).write_text("{}")
    (cache / "of the user").mkdir()
    old_s = time.time() - KEPT_S - 60
    os.utime(other / LIST, (old_s, old_s))
    (found / "run" / "a.txt").unlink()
    kept_content(data, expand)
    assert sorted(path.name for path in cache.iterdir()) == [digest(data), "of the user"]
    assert "removed 1 unpacked files of runs" in caplog.text
