"""`labs run` in a folder where others planted something, and a lab that plants something itself."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from labs import catalog
from labs.cli.__main__ import main
from labs.launch.make import MAKING

ROOT = Path(__file__).resolve().parents[2]
RUN = ("run", "nagle", "--only", "on", "--requests", "100", "--into", "runs")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file that is not this lab's, beside a folder of runs."""
    monkeypatch.chdir(tmp_path)
    for folder in ("home", "runs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "home/letter.txt").write_text("dear")
    return tmp_path / "home"


def test_run_leaves_the_targets_of_planted_links(home: Path) -> None:
    for name in (".staging-x-1-1", ".replaced-x-1-1", ".lock-x-1-1"):
        (home.parent / "runs" / name).symlink_to("../home")
    assert main([*RUN]) == 0
    assert os.listdir(home) == ["letter.txt"] and (home / "letter.txt").read_text() == "dear"


def test_run_says_in_one_line_what_it_cleared(home: Path) -> None:
    maker = (
        "import os, signal; from pathlib import Path\n"
        "from labs.drive.record.run_folder import Staging\n"
        "Staging(Path('runs'), 'x').write('deep/file', b''); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run((sys.executable, "-c", maker), env=environment)
    assert len(list(Path("runs").glob(".*-x-*"))) == 2
    words = (sys.executable, "-m", "labs.cli", *RUN)
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0
    assert len([line for line in done.stderr.splitlines() if "removed" in line]) == 1
    assert not list(Path("runs").glob(".*"))


def test_run_refuses_a_lock_of_another_user(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another user made the file first and holds it: here root gives it away, a user plants it as
    a link."""
    assert main([*RUN, "--dry-run"]) == 0
    assert main([*RUN]) == 0
    (made,) = Path("runs").glob("nagle-on-*")
    lock = Path("runs", f"{MAKING}{os.getuid()}-{made.name}")
    lock.touch(0o644)
    if os.geteuid() == 0:
        os.chown(lock, 65534, 65534)
    else:
        lock.unlink()
        lock.symlink_to("/dev/null")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        capsys.readouterr()
        assert main([*RUN, "--fresh"]) == 2
    assert "--into" in capsys.readouterr().err.splitlines()[-1] and os.path.lexists(lock)


PLANT = {
    "host.json": 'os.symlink("../../home/letter.txt", "/run/labs/run/host.json")',
    "seal.json": 'os.symlink("../../home/letter.txt", "/run/labs/run/seal.json")',
    "failure.json": 'os.mkfifo("/run/labs/run/failure.json")',
    "disk": 'os.mknod("/run/labs/run/disk", 0o60600, os.makedev(7, 200))',
}


@pytest.mark.parametrize("name", PLANT)
def test_run_refuses_what_a_lab_plants(
    home: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "disk" and os.geteuid() != 0:
        pytest.skip("only root's lab can make a device")
    monkeypatch.setattr(catalog, "_of_files", {})
    assert main(["new", "mylab"]) == 0
    first = "    settings, port = read_settings("
    source = Path("mylab.py").read_text()
    assert source.count(first) == 1
    Path("mylab.py").write_text(source.replace(first, f"    import os\n    {PLANT[name]}\n{first}"))
    capsys.readouterr()
    assert main(["run", "./mylab.py", "--only", "near", "--into", "runs"]) == 4
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert name in message
    assert os.listdir(home) == ["letter.txt"] and (home / "letter.txt").read_text() == "dear"
    assert stat.S_IMODE((home / "letter.txt").stat().st_mode) == 0o644
    assert not [path for path in Path("runs").iterdir() if path.name.startswith("mylab")]
