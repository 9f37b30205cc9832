"""The package as it is installed: all of it, with the recorded runs, and enough for Run All."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
PROJECT = "tcp-lab-notebook"
MB = 1_000_000
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


def pulled_in(wheel: Path) -> dict[str, Distribution]:
    """The distributions that the wheel installs without an extra, itself excluded, as in this
    environment."""
    held = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in held.namelist() if name.endswith(".dist-info/METADATA"))
    found: dict[str, Distribution] = {}
    waiting = re.findall(r"^Requires-Dist: (.*)$", held.read(metadata).decode(), re.MULTILINE)
    while waiting:
        one = Requirement(waiting.pop())
        name = canonicalize_name(one.name)
        if name not in found and (one.marker is None or one.marker.evaluate({"extra": ""})):
            found[name] = distribution(name)
            waiting += found[name].requires or []
    return found


def files_of(one: Distribution) -> list[Path]:
    """The files that were installed, without those that Python compiles and without scripts."""
    return [
        Path(file) for file in one.files or () if file.suffix != ".pyc" and ".." not in file.parts
    ]


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    """An environment with the installed wheel and what it pulls in, and nothing else. Nothing is
    fetched: the dependencies are links to their files in this environment."""
    made = wheel.with_name("environment")
    venv.create(made, symlinks=True)
    (packages,) = made.glob("lib/python*/site-packages")
    for one in pulled_in(wheel).values():
        for top in {file.parts[0] for file in files_of(one)}:
            (packages / top).symlink_to(Path(str(one.locate_file(top))).resolve())
    pip = [sys.executable, "-m", "pip", "--python", str(made / "bin" / "python"), "install"]
    argv = [*pip, "--quiet", "--no-index", "--no-compile", str(wheel)]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    return made


def test_wheel_installs_and_judges_claims_without_a_clone(
    environment: Path, tmp_path: Path
) -> None:
    """pip checks that the dependencies suffice. The figures are those of a clone with all extras;
    two of these claims need captures."""
    ids = ["A4.1", "A4.2", "A4.6"]
    place = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [str(environment / "bin" / "labs"), "claims", "--id", ",".join(ids), "--json"],
        cwd=tmp_path,
        env=place,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    kept = {one["id"]: one for one in json.loads((ROOT / "docs" / "claims.json").read_text())}
    judged = json.loads(done.stdout)
    assert [one["id"] for one in judged] == ids
    for one in judged:
        assert one["measured"] == kept[one["id"]]["measured"]
        assert one["verdict"] == kept[one["id"]]["verdict"]
    argv = [str(environment / "bin" / "python"), "-c", "import labs; print(labs.__file__)"]
    told = subprocess.run(argv, cwd=tmp_path, env=place, capture_output=True, text=True, check=True)
    assert Path(told.stdout.strip()).is_relative_to(environment)


def test_wheel_pulls_in_nothing_that_only_some_commands_need(wheel: Path) -> None:
    assert not pulled_in(wheel).keys() & {
        *("bleach", "dask", "distributed", "ipykernel", "jsonschema-rs", "jupyterlab", "nbconvert"),
        *("nbformat", "papermill", "pyarrow", "pyshark", "roc-validator", "rocrate", "scapy"),
    }


def test_readme_has_the_sizes_of_the_wheel_and_of_what_it_pulls_in(wheel: Path) -> None:
    """The wheel within 5 %: it grows with the recorded runs, which are most of it. What is
    installed within 10 %: versions in range differ."""
    text = " ".join((ROOT / "README.md").read_text().split())
    told = re.search(
        r"wheel is (\d+) MB and installs (\d+) packages \((\d+) since Python 3\.13\).* "
        r"All of them occupy (\d+) MB",
        text,
    )
    assert told is not None
    wheel_mb, *packages, installed_mb = map(int, told.groups())
    found = pulled_in(wheel)
    size = sum(one.file_size for one in zipfile.ZipFile(wheel).infolist()) + sum(
        os.path.getsize(str(one.locate_file(file)))
        for one in found.values()
        for file in files_of(one)
    )
    assert wheel_mb == pytest.approx(wheel.stat().st_size / MB, rel=0.05)
    assert packages[sys.version_info >= (3, 13)] == len(found)
    assert installed_mb == pytest.approx(size / MB, rel=0.1)


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
    done = subprocess.run(
        argv, cwd=tmp_path, env=place, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "recorded" in text
    assert text.count('<script type="application/json">') >= 2
