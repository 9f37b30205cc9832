"""The digest of a run's code is that of what the run can execute, and of nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.launch.code_digest import Code, code_of, copied, digest
from labs.launch.inventory import python

LABS = Path(__file__).parents[3] / "labs"
BUFFERS = "labs.experiments.buffers.experiment"
NAGLE = "labs.experiments.nagle.experiment"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package's code, to be edited."""
    copied = tmp_path_factory.mktemp("digest") / "labs"
    shutil.copytree(LABS, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


@pytest.fixture
def edited(package: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The copy with one file edited: a line of code at its end."""
    file = package / request.param
    before = file.read_bytes()
    file.write_bytes(before + b"\nEDITED = 1\n")
    yield package
    file.write_bytes(before)


def of_buffers(package: Path, testbed: str = "virtual") -> str:
    return digest(code_of(testbed, BUFFERS, package=package))


@pytest.mark.parametrize(
    "edited",
    [
        "experiments/nagle/experiment.py",
        "experiments/nagle/settings.py",
        "experiments/buffers/conditions.py",
        "drive/condition_table.py",
        "experiments/buffers/results.py",
        "experiments/buffers/figures.py",
        "experiments/buffers/article1.toml",
        "read/theory/bdp.py",
        "read/figures/style.py",
        "drive/testbed/ssh.py",
        "drive/testbed/connection.py",
        "drive/testbed/diagnosis.py",
        "drive/parameters/declare.py",
        "drive/preview.py",
        "launch/launch.py",
        "catalog.py",
        "__init__.py",
    ],
    indirect=True,
)
def test_digest_stays_when_what_no_run_executes_is_edited(edited: Path) -> None:
    assert of_buffers(edited) == of_buffers(LABS)


@pytest.mark.parametrize(
    "edited",
    [
        "drive/guest.py",
        "drive/execution.py",
        "drive/bench.py",
        "drive/download.py",
        "drive/testbed/virtual.py",
        "drive/testbed/namespaces.py",
        "drive/testbed/link.py",
        "drive/kernel/boot.py",
        "drive/kernel/memory.py",
        "drive/kernel/watchdog.py",
        "drive/programs/probe.py",
        "drive/programs/sampler.py",
        "experiments/buffers/experiment.py",
        "experiments/buffers/__init__.py",
        "errors.py",
    ],
    indirect=True,
)
def test_digest_changes_when_what_a_run_executes_is_edited(edited: Path) -> None:
    assert of_buffers(edited) != of_buffers(LABS)


@pytest.mark.parametrize("edited", ["drive/testbed/ssh.py", "drive/kernel/boot.py"], indirect=True)
def test_digest_depends_on_the_testbed(edited: Path) -> None:
    over_ssh = of_buffers(edited, "vagrant") != of_buffers(LABS, "vagrant")
    booted = of_buffers(edited) != of_buffers(LABS)
    assert over_ssh is not booted


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
    def of(code: Code) -> set[str]:
        return {name for name in code if not name.startswith("labs/drive/programs/")}

    buffers, nagle = of(code_of("virtual", BUFFERS)), of(code_of("virtual", NAGLE))
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
        "from labs.drive.bench import Bench\nfrom labs.drive import download\n"
        "def results(run):\n    from labs.read.theory import bdp\n"
    )
    code = code_of("virtual", "own_lab", own)
    assert code["own_lab.py"] == own.read_bytes()
    assert "labs/drive/download.py" in code
    assert not [name for name in code if name.startswith(("labs/read", "labs/experiments"))]


def test_copied_holds_the_code_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = code_of("virtual", NAGLE)
    copy = copied(code, (python(),)).folder
    files = {str(path.relative_to(copy)) for path in copy.rglob("*.*") if path.suffix != ".pyc"}
    assert {name for name in files if name.endswith(".py")} == set(code)
    assert (copy / "labs/__init__.py").read_bytes() == b""


@pytest.mark.parametrize("edited", ["drive/programs/epoll_server/request.h"], indirect=True)
def test_digest_follows_the_sources_of_a_program_in_c(edited: Path) -> None:
    stack = "labs.experiments.stack.experiment"
    found, before = (code_of("namespaces", stack, package=one) for one in (edited, LABS))
    assert digest(found) != digest(before)
    assert "labs/drive/programs/epoll_server/epoll_server.c" in found
    assert of_buffers(edited) == of_buffers(LABS)
