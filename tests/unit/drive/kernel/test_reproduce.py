"""The parts of a double build that need no build: places, users, the copy that builds."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.kernel import kernel_source, reproduce
from labs.drive.kernel.kernel_source import Source
from labs.drive.kernel.versions import read_kernel_spec
from labs.errors import BadInput, Missing, RunFailed

pytestmark = pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
# In place of a build: prints the digest of its source.
READER = """
import hashlib, json, pathlib, sys
source = pathlib.Path(sys.argv[sys.argv.index("--source") + 1])
print(json.dumps({"sha256": hashlib.sha256(source.read_bytes()).hexdigest()}))
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can build as another user")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder where other users may go, as the temporary folder of a test is not."""
    folder = Path(tempfile.mkdtemp(prefix="labs-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "far").mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def copied(place: Path) -> Path:
    """The folder of one build, with the copy of the package that is to build."""
    folder = place / reproduce._place() / "build"
    shutil.copytree(
        reproduce.PACKAGE,
        folder / "code" / reproduce.PACKAGE.name,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (folder.parent).chmod(0o700)
    return folder


def answer(copied: Path, user: str, *words: str) -> bytes:
    return reproduce._answer_of(
        (*reproduce._labs_of(user, copied), *words), copied / "code", copied, "it"
    )


def test_plan_names_source_folders_and_users(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Source("6.1.192-2", "archive", "linux-source-6.1", None)
    monkeypatch.setattr(kernel_source, "locate", lambda spec: found)
    said = reproduce.plan(read_kernel_spec("6.1"))
    assert (said["source"], said["from"]) == ("6.1.192-2", "archive")
    near, far = said["folders"]
    assert near != far and near.endswith(f"-{os.geteuid()}")
    assert (said["users"][1] == "nobody") == (os.geteuid() == 0)


def test_plan_refuses_a_series_that_no_patches_fit() -> None:
    with pytest.raises(BadInput):
        reproduce.plan(read_kernel_spec("5.15"))


def test_answer_of_is_that_of_the_copy(copied: Path) -> None:
    me, _ = reproduce._users()
    (copied / "code" / "labs" / "cli" / "kernel.py").unlink()
    with pytest.raises(RunFailed, match="it ended with exit code 1"):
        answer(copied, me, "kernel", "list", "--json")


@pytest.mark.parametrize("which", [0, pytest.param(1, marks=needs_root)])
def test_labs_of_each_user_builds_from_the_copy(copied: Path, which: int) -> None:
    user = reproduce._users()[which]
    tarball = copied / "linux.tar.xz"
    tarball.touch()
    words = ("--source", str(tarball), "--into", str(copied / "store"), "--dry-run", "--json")
    said = json.loads(answer(copied, user, "kernel", "build", "6.1.192", *words))
    assert (said["from"], said["into"]) == ("tarball", str(copied / "store"))


@needs_root
def test_labs_of_another_user_can_write_only_there(copied: Path, place: Path) -> None:
    other = place / "other"
    other.mkdir()
    words = reproduce._labs_of("nobody", copied)
    as_nobody = words[: words.index(reproduce.SYSTEM_PYTHON)]
    for folder, code in ((copied, 0), (other, 1)):
        touched = subprocess.run((*as_nobody, "touch", folder / "new"), stderr=subprocess.DEVNULL)
        assert touched.returncode == code


@pytest.mark.parametrize("which", [0, pytest.param(1, marks=needs_root)])
def test_build_of_each_user_can_read_the_source(
    place: Path, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is downloaded into a folder that only this user may enter."""
    labs_of = reproduce._labs_of

    def read_instead(user: str, folder: Path) -> tuple[str, ...]:
        return (*labs_of(user, folder)[:-2], "-c", READER)

    monkeypatch.setattr(reproduce, "_labs_of", read_instead)
    with reproduce._work(place) as work, reproduce._work(place / "far") as far:
        tarball = work / "source.tar.xz"
        tarball.write_bytes(b"source")
        built = reproduce._build("6.1", tarball, far / "build", reproduce._users()[which], None)
    assert built["sha256"] == hashlib.sha256(b"source").hexdigest()


def test_answer_of_an_interrupted_build_waits_for_its_end(tmp_path: Path) -> None:
    """The build removes its own work folder; only then may the folder around it be removed."""
    program = (
        "import signal, sys, time, pathlib\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(pathlib.Path('ended').touch()))\n"
        "pathlib.Path('begun').touch()\n"
        "time.sleep(600)\n"
    )

    def interrupt() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        reproduce._answer_of((sys.executable, "-c", program), tmp_path, tmp_path, "it")
    assert (tmp_path / "ended").exists()


def test_work_is_in_a_place_that_is_gone_afterwards(tmp_path: Path) -> None:
    with reproduce._work(tmp_path) as work:
        assert work.parent == tmp_path / reproduce._place()
    assert list(tmp_path.iterdir()) == []


def test_work_refuses_a_place_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / reproduce._place()).symlink_to("elsewhere")
    with pytest.raises(Missing, match="belongs to another user"), reproduce._work(tmp_path):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []
