"""pyproject.toml, requirements.lock and environment.yml name the same packages and ranges."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[3]
WHICH_PYTHON = ROOT / "setup" / "which-python.sh"
FIRST, LAST = 11, 14
"""Of Python 3: the range in pyproject.toml, which the tests compare with every other place."""
PYTHONS = ("3.11.2", *(f"3.{minor}.0" for minor in range(FIRST + 1, LAST + 1)))
NAMED = re.compile(r"Python 3\.(\d+) to[\s#]+3\.(\d+)")
# A Python of another version: its words are -c, the code and the arguments of the code.
ANOTHER = """#!/bin/sh
shift
exec {python} -c 'import sys; sys.version_info = (3, {minor}, 9); exec(sys.argv.pop(1))' "$@"
"""
SYSTEMS = ("linux", "darwin", "win32")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


@pytest.fixture(scope="module")
def conda() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "environment.yml").read_text())
    return found


@pytest.fixture(scope="module")
def lock() -> list[Requirement]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [Requirement(line.rstrip(" \\")) for line in lines if re.match(r"[a-z0-9]", line)]


WITH_PIP = {"jsonschema-rs"}
"""Installed by pip together with the package itself, from a wheel."""


def ranges(lines: list[str]) -> dict[str, SpecifierSet]:
    read = [Requirement(line) for line in lines]
    return {canonicalize_name(it.name): it.specifier for it in read}


def test_conda_has_the_packages_and_ranges_of_the_project(
    project: dict[str, Any], conda: dict[str, Any]
) -> None:
    listed = ranges([line for line in conda["dependencies"] if isinstance(line, str)])
    assert listed.pop("pip") == SpecifierSet()
    python = listed.pop("python")
    # pyshark does not run on 3.14, and conda knows no markers.
    assert python == SpecifierSet(f">=3.{FIRST},<3.14")
    extras = project["optional-dependencies"]
    optional = [line for name in extras if name != "test" for line in extras[name]]
    wanted = ranges(project["dependencies"] + optional)
    assert listed == {name: found for name, found in wanted.items() if name not in WITH_PIP}
    assert conda["dependencies"][-1] == {"pip": ["--editable .[fast,publish]"]}
    assert conda["name"] == project["name"]


def test_every_place_names_the_pythons_of_the_project(project: dict[str, Any]) -> None:
    assert project["requires-python"] == f">=3.{FIRST},<3.{LAST + 1}"
    python = "Programming Language :: Python :: 3."
    listed = [line for line in project["classifiers"] if line.startswith(python)]
    assert listed == [f"{python}{minor}" for minor in range(FIRST, LAST + 1)]
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("setup/*.sh")]
    named = {file.name: NAMED.findall(file.read_text()) for file in files}
    assert {one for found in named.values() for one in found} == {(f"{FIRST}", f"{LAST}")}
    assert all(named[name] for name in ("README.md", "teaching.md", "lock.sh"))
    assert f"--python-version 3.{FIRST} " in (ROOT / "setup" / "lock.sh").read_text()


@pytest.mark.parametrize("minor", range(FIRST - 1, LAST + 2))
@pytest.mark.parametrize("name", ["python3", "python3.{minor}", "PYTHON"])
def test_which_python_takes_the_pythons_of_the_project(
    minor: int, name: str, tmp_path: Path
) -> None:
    another = tmp_path / name.format(minor=minor)
    another.write_text(ANOTHER.format(python=sys.executable, minor=minor))
    another.chmod(0o755)
    for tool in ("bash", "dirname", "sed", "seq", "sh"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    environment = {"PATH": str(tmp_path)}
    if name == "PYTHON":
        environment["PYTHON"] = str(another)
    argv = [str(tmp_path / "bash"), str(WHICH_PYTHON)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    is_allowed = FIRST <= minor <= LAST
    assert (done.stdout == f"{another}\n") is is_allowed  # else perhaps /usr/bin/python3
    if is_allowed or name == "PYTHON":
        assert done.returncode == (0 if is_allowed else 3)


def test_which_python_says_that_it_cannot_read_the_range(tmp_path: Path) -> None:
    (tmp_path / "setup").mkdir()
    script = shutil.copy(WHICH_PYTHON, tmp_path / "setup")
    (tmp_path / "pyproject.toml").write_text('requires-python = "~=3.11"\n')
    done = subprocess.run(["bash", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_lock_has_one_version_in_range_of_every_dependency(
    project: dict[str, Any], lock: list[Requirement], python: str, system: str
) -> None:
    place = {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "sys_platform": system,
        "platform_machine": {"linux": "x86_64", "darwin": "arm64", "win32": "AMD64"}[system],
        "os_name": "nt" if system == "win32" else "posix",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    pinned: dict[str, Version] = {}
    for line in lock:
        if line.marker is None or line.marker.evaluate(place):
            assert line.name not in pinned
            (only,) = line.specifier
            pinned[line.name] = Version(only.version)
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    wanted = [Requirement(line) for line in project["dependencies"] + extras]
    asked = {
        canonicalize_name(one.name): one.specifier
        for one in wanted
        if one.marker is None or one.marker.evaluate(place)
    }
    for name, specifier in asked.items():
        assert pinned[name] in specifier, name


def test_lock_has_a_hash_for_every_package_and_names_no_index() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert "://" not in text
    packages = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert len(packages) > 50
    for package in packages:
        assert "--hash=sha256:" in package, package


def test_citation_agrees_with_the_project(project: dict[str, Any]) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == project["version"]
    assert citation["authors"] == project["authors"]
    assert {"message", "title", "license"} <= citation.keys()


def test_papermill_does_not_warn_of_a_connection_without_encryption(tmp_path: Path) -> None:
    """With the configuration that setup/python.sh copies; without it ipykernel 7 does."""
    book, configured = tmp_path / "book.ipynb", tmp_path / "ipython" / "profile_default"
    nbformat.write(new_notebook(cells=[new_code_cell("print(6 * 7)")]), book)
    configured.mkdir(parents=True)
    shutil.copy(ROOT / "setup" / "ipython_kernel_config.py", configured)
    argv = [sys.executable, "-m", "papermill", str(book), "-", "--kernel", "python3"]
    done = subprocess.run(
        argv,
        env={**os.environ, "IPYTHONDIR": str(configured.parent)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and "42" in done.stdout
    assert "encryption" not in done.stderr and "WARNING" not in done.stderr
