"""The digest of a run's code is that of what the run can execute, and of nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from labs.errors import Missing, RunFailed
from labs.launch.code_digest import Code, Copied, code_of, copied, digest
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
        "experiments/buffers/parameters.py",
        "experiments/buffers/results.py",
        "experiments/buffers/charts/timeline.py",
        "experiments/buffers/article1.toml",
        "read/theory/bdp.py",
        "read/charts/style.py",
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


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of copies in a cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "labs" / "code"


@pytest.fixture
def copy(cache: Path) -> Iterator[Copied]:
    with copied(code_of("virtual", NAGLE), python()) as found:
        yield found


def test_copied_holds_the_code_compiled_and_is_gone_afterwards(cache: Path) -> None:
    code = code_of("virtual", NAGLE)
    with copied(code, python()) as copy:
        files = {
            str(path.relative_to(copy.folder)) for path in copy.folder.rglob("*") if path.is_file()
        }
        assert {name for name in files if name.endswith(".py")} == set(code)
        assert len([name for name in files if name.endswith(".pyc")]) == len(code)
        assert files == set(copy.files)
        copy.check()
    assert list(cache.iterdir()) == []


def edit(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\nEDITED = 1\n")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


BENCH = "labs/drive/bench.py"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (BENCH, edit),
        (BENCH, truncate),
        (BENCH, Path.unlink),
        (BENCH, link),
        ("bench.pyc", edit),
        ("bench.pyc", truncate),
        ("bench.pyc", Path.unlink),
        ("json.py", Path.touch),  # would be loaded in place of the library's
        ("labs/drive/bench.so", Path.touch),
    ],
)
def test_check_refuses_a_copy_that_was_changed(
    copy: Copied, name: str, damage: Callable[[Path], object]
) -> None:
    if name == "bench.pyc":
        (path,) = copy.folder.rglob("bench.*.pyc")
    else:
        path = copy.folder / name
    damage(path)
    with pytest.raises(RunFailed):
        copy.check()


def test_check_refuses_a_package_that_would_hide_a_module(copy: Copied) -> None:
    hiding = copy.folder / "labs" / "drive" / "bench" / "__init__.py"
    hiding.parent.mkdir()
    hiding.touch()
    with pytest.raises(RunFailed) as refused:
        copy.check()
    assert str(hiding) in str(refused.value) and "\n" not in str(refused.value)


def test_copied_refuses_code_that_does_not_compile(cache: Path) -> None:
    with (
        pytest.raises(RunFailed, match=r"own_lab\.py.*SyntaxError"),
        copied({"own_lab.py": b"def measure(:\n"}, python()),
    ):
        pass
    assert list(cache.iterdir()) == []


def test_copied_refuses_a_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "labs").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Missing, match="XDG_CACHE_HOME"), copied({}, python()):
        pass


HOLDER = """
import sys
from labs.launch.code_digest import copied
from labs.launch.inventory import python
with copied({"one.py": b""}, python()) as copy:
    print(copy.folder.parent, flush=True)
    sys.stdin.read()
"""


def folder_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def test_copied_clears_copies_of_killed_processes_and_leaves_those_of_others(cache: Path) -> None:
    with ExitStack() as stack:
        killed, living = (
            stack.enter_context(
                subprocess.Popen(
                    (sys.executable, "-c", HOLDER),
                    cwd=LABS.parent,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(2)
        )
        of_killed, of_living = (folder_of(one) for one in (killed, living))
        killed.kill()
        killed.wait()
        assert of_killed.is_dir() and of_living.is_dir()
        with copied({"one.py": b""}, python()):
            assert not of_killed.exists() and of_living.is_dir()
        living.communicate("")
    assert list(cache.iterdir()) == []


def test_copied_clears_what_earlier_versions_kept_unless_it_is_recent(cache: Path) -> None:
    old, recent, making = (cache / name for name in ("0a" * 32, "0b" * 32, ".making-0c"))
    for folder in (old, recent, making):
        (folder / "labs").mkdir(parents=True)
        (folder / "labs" / "errors.py").touch()
    long_ago = time.time() - 8 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    with copied({"one.py": b""}, python()):
        assert not old.exists() and not making.exists()
    assert list(cache.iterdir()) == [recent]
