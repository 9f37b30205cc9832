"""The digest of a run's code is that of what the run can execute, and of nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from labs.drive.kernel.programs import python
from labs.launch.code_digest import code_of, copied, digest

LABS = Path(__file__).parents[3] / "labs"
BUFFERS = "labs.experiments.buffers.experiment"
NAGLE = "labs.experiments.nagle.experiment"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package's code, to be edited."""
    copied = tmp_path_factory.mktemp("digest") / "labs"
    shutil.copytree(LABS, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


@contextmanager
def edited(file: Path) -> Iterator[None]:
    """A line of code at the end of a file."""
    before = file.read_bytes()
    file.write_bytes(before + b"\nEDITED = 1\n")
    yield
    file.write_bytes(before)


def files(package: Path) -> set[Path]:
    """The files of a package that code can be in."""
    return {path for path in package.rglob("*") if path.suffix in {".py", ".c", ".h", ".toml"}}


def executed(package: Path) -> set[Path]:
    """The files that a virtual run of the lab `buffers` executes."""
    lab = package / "experiments" / "buffers"
    return {
        *(path for path in files(package / "guest")),
        *(lab / name for name in ("__init__.py", "experiment.py", "settings.py")),
        package / "experiments" / "__init__.py",
        package / "errors.py",
    }


def of_buffers(package: Path, testbed: str = "virtual") -> str:
    return digest(code_of(testbed, BUFFERS, package=package))


def test_digest_changes_with_each_file_that_a_run_executes(package: Path) -> None:
    before = of_buffers(package)
    for file in executed(package):
        with edited(file):
            assert of_buffers(package) != before, file
    assert of_buffers(package) == before


def test_digest_stays_when_any_other_file_is_edited(package: Path) -> None:
    before = of_buffers(package)
    others = files(package) - executed(package)
    assert package / "drive" / "kernel" / "boot.py" in others
    with ExitStack() as edits:
        for file in others:
            edits.enter_context(edited(file))
        assert of_buffers(package) == before


def test_digest_depends_on_the_testbed(package: Path) -> None:
    with edited(package / "drive" / "testbed" / "ssh.py"):
        assert of_buffers(package, "vagrant") != of_buffers(LABS, "vagrant")
        assert of_buffers(package) == of_buffers(LABS)
        assert of_buffers(package, "namespaces") == of_buffers(LABS, "namespaces")


def test_digest_stays_when_a_lab_is_added(package: Path) -> None:
    before = of_buffers(package), digest(code_of("virtual", NAGLE, package=package))
    added = package / "experiments" / "added"
    shutil.copytree(package / "experiments" / "nagle", added)
    try:
        after = of_buffers(package), digest(code_of("virtual", NAGLE, package=package))
        own = digest(code_of("virtual", "labs.experiments.added.experiment", package=package))
    finally:
        shutil.rmtree(added)
    assert after == before
    assert own not in after


def test_code_of_two_labs_differs_in_their_folders_alone() -> None:
    buffers, nagle = set(code_of("virtual", BUFFERS)), set(code_of("virtual", NAGLE))
    assert buffers - nagle == {
        "labs/experiments/buffers/__init__.py",
        "labs/experiments/buffers/experiment.py",
        "labs/experiments/buffers/settings.py",
    }
    assert nagle - buffers == {
        "labs/experiments/nagle/__init__.py",
        "labs/experiments/nagle/experiment.py",
        "labs/experiments/nagle/settings.py",
    }


def test_code_of_an_own_lab_is_its_file_and_what_it_imports(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "from labs.guest.bench import Bench\nfrom labs.drive import download\n"
        "def results(run):\n    from labs.read.theory import bdp\n"
    )
    code = code_of("virtual", "own_lab", own)
    assert code["own_lab.py"] == own.read_bytes()
    assert "labs/guest/download.py" in code
    assert not [name for name in code if name.startswith(("labs/read", "labs/experiments"))]


def test_copied_holds_the_code_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = code_of("virtual", NAGLE)
    copy = copied(code, (python(),)).folder
    files = {str(path.relative_to(copy)) for path in copy.rglob("*.*") if path.suffix != ".pyc"}
    assert files == set(code)
    assert (copy / "labs/__init__.py").read_bytes() == b""
