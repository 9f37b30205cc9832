"""Files that are whole or not there, also when their writer is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from labs.drive.record.disk import whole_file, write_whole
from labs.drive.record.study_file import Planned, read_study, write_study

ROOT = Path(__file__).parents[4]


def left(runs: Path) -> list[str]:
    return sorted(entry.name for entry in runs.iterdir())


def test_clear_unfinished_after_a_killed_writer(tmp_path: Path) -> None:
    writer = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from labs.drive.record.disk import whole_file\n"
        "with whole_file(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half')\n    file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    study = write_study(tmp_path, "buffers", {"seed": 1}, [Planned("both", "0" * 64)])
    for _ in range(2):
        path = tmp_path / "studies/buffers.json"
        done = subprocess.run([sys.executable, "-c", writer, str(path)], cwd=ROOT)
        assert done.returncode == -signal.SIGKILL
        assert len(left(path.parent)) == 3
    assert read_study(tmp_path / "studies/buffers.json").name == study.name
    write_study(tmp_path, "buffers", {"seed": 2}, [Planned("both", "1" * 64)])
    assert len(left(tmp_path / "studies")) == 3
    subprocess.run(
        [sys.executable, "-c", writer, str(tmp_path / "studies/buffers-0.json")], cwd=ROOT
    )
    write_study(tmp_path, "buffers", {"seed": 2}, [Planned("both", "1" * 64)])
    assert len(left(tmp_path / "studies")) == 3


def test_whole_file_keeps_the_old_one_after_an_error(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", b"one")
    assert oct((tmp_path / "file").stat().st_mode)[-3:] == "644"
    with pytest.raises(RuntimeError), whole_file(tmp_path / "file") as file:
        file.write(b"half")
        raise RuntimeError
    assert (tmp_path / "file").read_bytes() == b"one" and left(tmp_path) == ["file"]
