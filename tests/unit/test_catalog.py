"""The catalog: labs of the package, and labs in a file of the reader's own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs import catalog
from labs.cli import new
from labs.drive.parameters import LabParameters
from labs.errors import BadInput
from labs.experiments.buffers.parameters import Buffers

ROOT = Path(__file__).resolve().parents[2]

ECHO_PARAMETERS = """
from dataclasses import dataclass
from labs.drive.parameters import LabParameters, parameter

@dataclass(frozen=True, kw_only=True)
class Echo(LabParameters):
    words: int = parameter(3, low=1, high=9, help="how many words are sent")
"""
ECHO_EXPERIMENT = """
from labs.experiments.condition import Condition
from labs.testbed.link import Link

def conditions(p):
    return (Condition("near", Link(delay_ms=5.0), settings={"words": p.words}),
            Condition("far", Link(delay_ms=50.0), settings={"words": p.words}))

def measure(bench, condition):
    pass
"""


@pytest.fixture(autouse=True)
def no_own_labs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts without labs of the reader's own, and leaves none behind."""
    monkeypatch.setattr(catalog, "_own", {})
    yield
    for name in [name for name in sys.modules if name.startswith("labs_own_")]:
        del sys.modules[name]


def own(folder: Path, text: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def refused(name_or_path: str) -> str:
    with pytest.raises(BadInput) as caught:
        catalog.find(name_or_path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_lab_of_the_package_is_found_by_name() -> None:
    lab = catalog.find("buffers")
    assert lab.Parameters is Buffers
    assert catalog.lab_of(Buffers()) is lab
    assert [one.name for one in lab.conditions(Buffers(only="both"))] == ["both"]


def test_every_lab_has_a_title_and_parameters_of_its_own() -> None:
    for lab in map(catalog.find, catalog.LABS):
        assert lab.name in catalog.LABS and lab.title
        assert issubclass(lab.Parameters, LabParameters)
        assert lab.conditions(lab.Parameters())


def test_an_unknown_lab_is_told_with_the_nearest_and_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "did you mean buffers?" in refused("bufers")
    assert "Available: buffers, nagle, or a file" in refused("zork")
    assert "no such file" in refused("./nothing.py")
    monkeypatch.chdir(tmp_path)
    own(tmp_path, new.source("mine"))
    assert 'did you mean "./mine.py"? Available' in refused("mine")


def test_an_own_file_is_a_lab(tmp_path: Path) -> None:
    lab = catalog.find(own(tmp_path, new.source("mine")))
    assert (lab.name, lab.source) == ("mine", tmp_path / "mine.py")
    assert lab.title.startswith("How long")
    p = lab.Parameters(only="far")
    assert catalog.lab_of(p) is lab
    assert [one.name for one in lab.conditions(p)] == ["far"]
    assert callable(vars(lab.require("results"))["measure"])
    assert catalog.find("mine") is lab  # from now on by name, as its runs call it
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.py"]
    with pytest.raises(BadInput, match="the lab mine has no charts"):
        lab.require("charts")


def test_an_own_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    path = own(tmp_path, new.source("mine"))
    first = catalog.find(path)
    assert catalog.find(path) is first
    own(tmp_path, new.source("mine").replace("100, unit", "200, unit"))
    changed = catalog.find(path)
    assert vars(changed.Parameters())["file_kib"] == 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def (", "mine.py, line 1: SyntaxError"),
        ("x = 1\ny = 1 / 0\n", "mine.py, line 2: ZeroDivisionError: division by zero"),
        ("import zork\n", "mine.py, line 1: ModuleNotFoundError"),
        ("raise SystemExit('stop')\n", "mine.py, line 1: SystemExit: stop"),
        ("\0", "mine.py"),
        ("x = 1\n", "defines no Parameters and no conditions and no measure and no results"),
        (new.source("mine").replace("def results", "def result"), "defines no results"),
        (new.source("mine").replace("@dataclass(frozen=True, kw_only=True)\n", ""), "@dataclass"),
        (new.source("mine").replace("(LabParameters)", ""), "a class on LabParameters"),
        (
            new.source("mine").replace("low=1", "low=200"),
            "Parameters.file_kib: default = 100 is out",
        ),
        (new.source("mine").replace("frozen=True, ", ""), "cannot inherit non-frozen"),
    ],
)
def test_a_file_that_is_no_lab_is_told_so(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused(own(tmp_path, text))
    assert "labs_own_mine" not in sys.modules


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("My-Lab.py", "lower-case letters, digits and underscores"),
        ("buffers.py", "buffers is a lab of the package"),
    ],
)
def test_a_file_needs_a_name_that_a_lab_can_have(tmp_path: Path, name: str, said: str) -> None:
    assert said in refused(own(tmp_path, new.source("mine"), name))


def test_a_folder_is_no_lab(tmp_path: Path) -> None:
    assert "is a directory" in refused(str(tmp_path))


def test_parameters_of_no_lab_are_told_so() -> None:
    with pytest.raises(BadInput, match=r"labs\.check makes them"):
        catalog.lab_of(LabParameters())


@pytest.mark.skip("for the layout of one folder per lab")
def test_adding_a_lab_touches_the_catalog_and_its_own_files_only(tmp_path: Path) -> None:
    package = tmp_path / "labs"
    shutil.copytree(ROOT / "labs", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "parameters" / "echo.py").write_text(ECHO_PARAMETERS)
    (package / "experiments" / "echo.py").write_text(ECHO_EXPERIMENT)
    listed = package / "catalog.py"
    mark = '        _of_the_package("buffers"'
    line = '        _of_the_package("echo", "Echo", "How long a word takes"),\n'
    assert mark in listed.read_text()
    listed.write_text(listed.read_text().replace(mark, line + mark))

    def labs(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "labs.cli", *words],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "--words" in labs("parameters", "echo")
    assert "echo" in labs("run", "--help")
    steps = json.loads(labs("run", "echo", "--words", "4", "--only", "far", "--dry-run", "--json"))
    assert steps["parameters"]["words"] == 4
    commands = [" ".join(line["argv"]) for line in steps["conditions"][0]["commands"]]
    assert any("netem delay 50ms" in line for line in commands)
