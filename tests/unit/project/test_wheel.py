"""The package as it is installed: all of it, with the recorded runs, and enough for Run All."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from labs.drive.record.disk import cache
from labs.errors import Missing

ROOT = Path(__file__).parents[3]
NOTEBOOKS = ("00-start-here", "03-nagle-and-delayed-ack")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = into.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path) -> Path:
    """The package as it is installed."""
    into = wheel.with_name("site")
    zipfile.ZipFile(wheel).extractall(into)
    return into


def relative(folder: Path, *patterns: str) -> set[str]:
    return {
        str(file.relative_to(folder))
        for pattern in patterns
        for file in folder.rglob(pattern)
        if file.is_file()
    }


def test_wheel_has_every_file_of_the_package_and_of_the_recorded_runs(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    package = {name for name in relative(ROOT / "labs", "*") if "__pycache__" not in name}
    assert {f"labs/{name}" for name in package} <= held
    assert "py.typed" in package  # type checkers take the package's types by that
    assert {f"labs/recorded/{name}" for name in relative(ROOT / "data", "*")} <= held
    assert [name for name in held if "__pycache__" in name or name.startswith("tests/")] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_installed_package_runs_the_notebook_from_recorded_runs_without_any_tool(
    site: Path, tmp_path: Path, notebook: str
) -> None:
    page = tmp_path / "page.html"
    argv = [
        sys.executable,
        "-m",
        "labs.cli.__main__",
        "publish",
        str(ROOT / "notebooks" / f"{notebook}.ipynb"),
        "--set",
        "TESTBED=recorded",
        "--out",
        str(page),
    ]
    place = {"PATH": str(tmp_path), "PYTHONPATH": str(site), "HOME": str(tmp_path)}
    with suppress(Missing):  # what is compiled need not be compiled again
        place["NUMBA_CACHE_DIR"] = os.environ.get("NUMBA_CACHE_DIR", str(cache() / "compiled"))
    done = subprocess.run(
        argv, cwd=tmp_path, env=place, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "recorded" in text
    assert text.count('<script type="application/json">') >= 2
