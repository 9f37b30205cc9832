"""A kernel, and folders for one boot of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.kernel import store
from tests.conftest import DEFAULT_KERNEL

LONGEST = (
    *("test_buffers.py", "test_windows.py", "test_guest_files.py", "test_nagle.py"),
    *("test_sweeps.py", "test_repeat.py", "test_host_variants.py", "test_watchdog.py"),
    *("test_contract.py", "test_refusals.py", "test_signals.py", "test_launch.py"),
)
"""The files whose tests take longest, the longest first: a worker gets whole files, and one that
began a long file last would finish long after the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the longest files begin first. The order within a file, and of all others, stays."""

    def place(item: pytest.Item) -> int:
        here = item.path.parent == Path(__file__).parent
        return LONGEST.index(item.path.name) if here and item.path.name in LONGEST else len(LONGEST)

    items.sort(key=place)


@pytest.fixture(scope="module")
def kernel(request: pytest.FixtureRequest) -> Path:
    """The default kernel, or the one with which a test is parametrized."""
    return store.find(getattr(request, "param", DEFAULT_KERNEL)).path


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for the guests' memory that is this test's own."""
    folder = tmp_path / "guests"
    folder.mkdir()
    monkeypatch.setenv("LABS_MEMORY_DIR", str(folder))
    return folder


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    folder = tmp_path / "staging"
    folder.mkdir()
    return folder


@pytest.fixture
def canaries() -> Iterator[list[Path]]:
    """Files of this machine that are none of a guest's: in the home folder and in another."""
    folders = [
        Path(tempfile.mkdtemp(prefix="labs-canary-", dir=where))
        for where in (Path.home(), Path("/var/tmp"))
    ]
    found = [folder / "canary" for folder in folders]
    for canary in found:
        canary.write_text("sings\n")
    try:
        yield found
    finally:
        for folder in folders:
            shutil.rmtree(folder)
