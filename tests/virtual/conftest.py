"""A kernel, and folders for one boot of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.kernel import store
from tests.conftest import DEFAULT_KERNEL


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
