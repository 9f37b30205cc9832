"""The catalog: labs of the package, and labs in a file of the reader's own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labs import catalog
from labs.cli import new
from labs.drive.parameters import LabParameters
from labs.drive.record.stored_files import AGAIN
from labs.errors import BadInput, Damaged
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.read.claims.sources import Source, verdicts_from
from labs.read.lab import Lab
from labs.read.runs.run import open_run
from tests.run_folders import inputs, make_run

ROOT = Path(__file__).resolve().parents[2]

# A whole lab, part by part.
ECHO = {
    "__init__.py": "",
    "settings.py": """
from dataclasses import dataclass

@dataclass(frozen=True)
class Settings:
    words: int = 3
    sample_ms: int = 100
""",
    "conditions.py": '''"""How long an echo takes."""
from dataclasses import dataclass
from labs.guest.condition import Condition, Group, as_settings
from labs.drive.parameters import LabParameters, parameter
from labs.drive.result_columns import Margin
from labs.guest.testbed.link import Link
from labs.experiments.echo.settings import Settings

GROUPS = (Group("none", "No delay"), Group("delays", "Two delays"))
MARGIN = Margin(0.9, 1.1, "an echo is short")

@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    words: int = parameter(3, low=1, high=9, help="how many words are sent")

def conditions(p):
    settings = as_settings(Settings(p.words))
    return (Condition("near", Link(delay_ms=5.0), {}, settings, "delays"),
            Condition("far", Link(delay_ms=50.0), {}, settings, "delays"),
            Condition("here", Link(), {}, settings, "none"))
''',
    "experiment.py": """
from labs.experiments.echo.settings import Settings

def measure(bench, condition):
    pass
""",
    "results.py": """
from labs.drive.result_columns import Note, column

class Results:
    def __init__(self, run):
        self.run = run

    @column("size of the body", unit="bytes", headline=True)
    def bytes(self) -> int:
        return self.run.fetch()["bytes"]

    def notes(self):
        yield Note("short", "x")
""",
    "figures.py": """
from plotly.graph_objects import Bar, Figure

def describe(table):
    return f"{len(table)} echoes"

def sizes(table):
    return Figure(Bar(x=table["condition"], y=table["bytes"]))
""",
    "claims.py": """
from labs.read.claims.verdict import HOLDS, Finding

def grouped(claim, seen):
    return Finding(verdict=HOLDS, reason=seen.row("far")["group"])

JUDGES = {"grouped": grouped}
""",
    "article9.toml": """
[article]
number = 9
title = "Echoes"
lab = "echo"
kernels = "6.1"
[article.parameters]
[[claim]]
id = "A9.1"
statement = "The body has 1 GiB."
expected = 1073741824
unit = "bytes"
tolerance_pct = 0.0
tolerance_reason = "bytes are counted"
conditions = ["far"]
column = "bytes"
[[claim]]
id = "A9.2"
statement = "It has a group."
expected = "delays"
unit = "group"
conditions = ["far"]
judge = "grouped"
""",
}
LOOK = """
import labs
from labs import charts
from labs.catalog import find
from labs.read.runs.run import open_run
from labs.studies.study import Study
from pathlib import Path

lab = find("echo")
(run,) = map(open_run, Path("runs").glob("echo-*"))
study = Study(lab.Parameters(), (run,), Path("runs"), None, True, lab=lab)
table = study.results()
assert labs.echo is charts.echo
print(study.describe(), charts.echo.sizes(table).data[0].y[0], table.note_codes[0])
"""


def write_parts(folder: Path, **changed: str | None) -> Path:
    """The lab `echo` in a folder; `changed` are parts by their name before the dot, None for one
    that is left out."""
    for name, text in ECHO.items():
        given = changed.get(name.split(".")[0], text)
        if given is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(given)
    return folder


@pytest.fixture(autouse=True)
def no_own_labs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts without labs of the reader's own, and leaves none behind."""
    monkeypatch.setattr(catalog, "_of_files", {})
    yield
    for name in [name for name in sys.modules if name.startswith("labs_own_")]:
        del sys.modules[name]


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def refused(name_or_path: str) -> str:
    with pytest.raises(BadInput) as caught:
        catalog.find(name_or_path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_find_by_name() -> None:
    lab = catalog.find("buffers")
    assert lab.Parameters is Buffers
    assert catalog.lab_of(Buffers()) is lab
    assert [condition.name for condition in lab.conditions(Buffers(only="both"))] == ["both"]


def test_find_gives_each_lab_a_title_and_parameters_of_its_own() -> None:
    for lab in map(catalog.find, catalog.LABS):
        assert lab.name in catalog.LABS and lab.title
        assert issubclass(lab.Parameters, LabParameters)
        assert lab.conditions(lab.Parameters())


def test_find_gives_a_lab_its_parts() -> None:
    lab = catalog.find("queues")
    assert lab.require("figures").__name__ == "labs.experiments.queues.figures"
    assert lab.require("results").__name__ == "labs.experiments.queues.results"
    assert lab.part("prediction") is None


@pytest.mark.parametrize("size", ["small", "full"])
def test_conditions_of_a_lab_have_a_name_each(size: str) -> None:
    for lab in map(catalog.find, catalog.LABS):
        every = lab.all_conditions(lab.Parameters(size=size, testbed="recorded"))
        names = [condition.name for condition in every]
        assert sorted(set(names)) == sorted(names), lab.name


def test_find_refuses_an_unknown_lab_with_the_nearest_and_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'did you mean "buffers"?' in refused("bufers")
    assert f"Available: {', '.join(catalog.LABS)}, or a file" in refused("zork")
    assert "no such file" in refused("./nothing.py")
    monkeypatch.chdir(tmp_path)
    written(tmp_path, new.source("mine"))
    assert 'did you mean "./mine.py"? Available' in refused("mine")


def test_find_of_an_own_file(tmp_path: Path) -> None:
    lab = catalog.find(written(tmp_path, new.source("mine")))
    assert (lab.name, lab.source) == ("mine", tmp_path / "mine.py")
    assert lab.title.startswith("The time to transfer")
    p = lab.Parameters(only="far")
    assert catalog.lab_of(p) is lab
    assert [condition.name for condition in lab.conditions(p)] == ["far"]
    assert callable(vars(lab.require("results"))["measure"])
    assert catalog.find("mine") is lab  # from now on by name, as its runs call it
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.py"]
    with pytest.raises(BadInput, match="the lab mine has no figures"):
        lab.require("figures")


def test_find_reads_an_own_file_again_after_a_change(tmp_path: Path) -> None:
    path = written(tmp_path, new.source("mine"))
    first = catalog.find(path)
    assert catalog.find(path) is first
    written(tmp_path, new.source("mine").replace("100, unit", "200, unit"))
    changed = catalog.find(path)
    assert vars(changed.Parameters())["file_kib"] == 200


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("def (", "mine.py, line 1: SyntaxError"),
        ("x = 1\ny = 1 / 0\n", "mine.py, line 2: ZeroDivisionError: division by zero"),
        ("import zork\n", "mine.py, line 1: ModuleNotFoundError"),
        ("raise SystemExit('stop')\n", "mine.py, line 1: SystemExit: stop"),
        ("\0", "mine.py"),
        ("x = 1\n", "defines no Parameters and no conditions and no measure and no Results"),
        (new.source("mine").replace("class Results", "class Result"), "defines no Results"),
        (new.source("mine") + "import pandas\n", "it imports pandas, which a run cannot load"),
        (new.source("mine").replace("@dataclass(frozen=True, kw_only=True)\n", ""), "@dataclass"),
        (new.source("mine").replace("(LabParameters)", ""), "a subclass of LabParameters"),
        (
            new.source("mine").replace("low=1", "low=200"),
            "Parameters.file_kib: default = 100 is out",
        ),
        (new.source("mine").replace("frozen=True, ", ""), "cannot inherit non-frozen"),
        (new.source("mine").replace("def round_trips", "def took_ms"), "took_ms twice"),
        (new.source("mine").replace("p.file_kib", "p.kib"), "mine.py, line 33: AttributeError"),
        (
            new.source("mine").replace("{}, settings)", '{}, settings, "pair")'),
            'the condition near has the group "pair". Declared: none',
        ),
        (
            new.source("mine").replace("Condition(name,", 'Condition("one",'),
            "mine.py: two conditions have the name one",
        ),
    ],
)
def test_find_refuses_a_file_that_is_not_a_lab(tmp_path: Path, text: str, part: str) -> None:
    assert part in refused(written(tmp_path, text))
    assert "labs_own_mine" not in sys.modules


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("My-Lab.py", "lower-case letters, digits and underscores"),
        ("buffers.py", "buffers is a lab of the package"),
    ],
)
def test_find_refuses_a_file_name_that_no_lab_can_have(
    tmp_path: Path, name: str, part: str
) -> None:
    assert part in refused(written(tmp_path, new.source("mine"), name))


def test_conditions_refuses_a_name_used_twice_for_some_parameters(tmp_path: Path) -> None:
    """What the defaults do not show is refused when the conditions are collected."""
    text = new.source("mine").replace(
        "Condition(name,", 'Condition(name if p.file_kib == 100 else "one",'
    )
    lab = catalog.find(written(tmp_path, text))
    with pytest.raises(BadInput, match=r"mine\.py: two conditions have the name one\."):
        lab.conditions(replace(lab.Parameters(), **{"file_kib": 200}))  # type: ignore[arg-type]


def test_find_refuses_a_folder(tmp_path: Path) -> None:
    assert "is a directory" in refused(str(tmp_path))


def test_lab_of_refuses_the_parameters_of_no_lab() -> None:
    with pytest.raises(BadInput, match=r"Use labs\.check"):
        catalog.lab_of(LabParameters())


def files_of(folder: Path, without: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and without not in path.parts
    }


def test_load_folder_of_an_added_lab_changes_nothing_else(tmp_path: Path) -> None:
    """A folder with every part is a lab: its parameters, its runs, its claims, its charts."""
    package = tmp_path / "labs"
    shutil.copytree(ROOT / "labs", package, ignore=shutil.ignore_patterns("__pycache__"))
    before = files_of(package, "echo")
    write_parts(package / "experiments" / "echo")
    link = {**inputs()["condition"]["link"], "delay_ms": 50.0}
    far = {**inputs("far")["condition"], "settings": {"words": 3}, "link": link}
    make_run(tmp_path / "runs", inputs("far", lab="echo", condition=far))

    def python(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def labs(*words: str) -> str:
        return python("-m", "labs.cli", *words)

    assert "--words" in labs("run", "echo", "--help")
    assert "echo" in labs("run", "--help")
    groups = [line.strip() for line in labs("run", "echo", "--help").splitlines()]
    assert groups.index("No delay (none):") < groups.index("Two delays (delays):")
    steps = json.loads(labs("run", "echo", "--dry-run", "--json"))
    assert [(step["group"], step["condition"]) for step in steps["conditions"]] == [
        ("none", "here"),
        ("delays", "near"),
        ("delays", "far"),
    ]
    steps = json.loads(labs("run", "echo", "--words", "4", "--only", "far", "--dry-run", "--json"))
    assert steps["parameters"]["words"] == 4
    commands = [" ".join(line["argv"]) for line in steps["conditions"][0]["commands"]]
    assert any("netem delay 50ms" in line for line in commands)
    verdicts = json.loads(labs("claims", "--from", "runs", "--json"))
    assert [(verdict["id"], verdict["verdict"]) for verdict in verdicts] == [
        ("A9.1", "holds"),
        ("A9.2", "holds"),
    ]
    assert verdicts[1]["reason"] == "delays"  # by name: the run does not say its group
    assert python("-c", LOOK).split() == ["1", "echoes", str(2**30), "short"]
    assert files_of(package, "echo") == before


def loaded_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None]
) -> Lab:
    """The lab `echo` with changed parts, in a folder that is a package of its own."""
    folder = write_parts(tmp_path / "labs_echo", **changed)
    for path in folder.rglob("*.py"):
        path.write_text(path.read_text().replace("labs.experiments.echo", "labs_echo"))
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "labs_echo"]:
        monkeypatch.delitem(sys.modules, name)
    return catalog.load_folder(folder, "labs_echo")


TAKEN = ECHO["results.py"].replace("def bytes", "def link")
GROUP_TAKEN = ECHO["results.py"].replace("def bytes", "def group")
FAR = "Link(delay_ms=50.0), {}, settings"
NO_PARAMETER = ECHO["conditions.py"].replace("p.words", "p.word")
UNDECLARED = ECHO["conditions.py"].replace(f'{FAR}, "delays"', f'{FAR}, "delay"')
UNGROUPED = ECHO["conditions.py"].replace(f'{FAR}, "delays"', FAR)
SAME_NAME = ECHO["conditions.py"].replace('"far"', '"near"')
NO_GROUPS = ECHO["conditions.py"].replace("GROUPS =", "OTHER =")
TWO_GROUPS = ECHO["conditions.py"].replace('Group("none"', 'Group("delays"')
TITLES = ECHO["conditions.py"].replace("MARGIN =", 'GROUPS = ("none", "delays")\nMARGIN =')
NO_FRONT = '"""Echo."""\n'
NOT_A_COLUMN = ECHO["results.py"].replace("headline=True", 'predicted_by="byte"')


@pytest.mark.parametrize(
    ("changed", "file", "part"),
    [
        ({"results": None}, "", "missing: results.py"),
        ({"conditions": None}, "", "missing: conditions.py"),
        ({"experiment": None, "conditions": None}, "", "missing: conditions.py, experiment.py"),
        ({"experiment": "x = 1\n"}, "experiment.py", "it defines no measure"),
        ({"results": "x = 1\n"}, "results.py", "it defines no Results"),
        ({"experiment": "def ("}, "experiment.py", ", line 1: SyntaxError"),
        ({"conditions": "def ("}, "conditions.py", ", line 1: SyntaxError"),
        ({"conditions": "GROUPS = 1 / 0\n"}, "conditions.py", ", line 1: ZeroDivisionError"),
        ({"conditions": NO_PARAMETER}, "conditions.py", ", line 17: AttributeError"),
        ({"claims": None}, "article9.toml", "A9.2: grouped is not a judging function"),
        (
            {"conditions": UNDECLARED},
            "conditions.py",
            'far has the group "delay"; did you mean delays?',
        ),
        ({"conditions": UNGROUPED}, "conditions.py", "far has no group. Declared: none, delays"),
        ({"conditions": SAME_NAME}, "conditions.py", "two conditions have the name near"),
        ({"conditions": NO_GROUPS}, "conditions.py", 'near has the group "delays". Declared: none'),
        ({"conditions": TWO_GROUPS}, "conditions.py", "GROUPS declares delays twice"),
        ({"conditions": TITLES}, "conditions.py", "GROUPS must be a tuple of Group"),
        (
            {"article9": ECHO["article9.toml"].replace('"grouped"', '"group"')},
            "article9.toml",
            "A9.2",
        ),
        (
            {"experiment": "import pandas\n" + ECHO["experiment.py"]},
            "experiment.py",
            "it imports pandas",
        ),
        (
            {"experiment": "from labs.read.lab import Lab\n" + ECHO["experiment.py"]},
            "experiment.py",
            "imports labs.read.lab",
        ),
        ({"settings": "import numpy\n" + ECHO["settings.py"]}, "settings.py", "it imports numpy"),
        ({"conditions": NO_FRONT}, "conditions.py", "no Parameters and no conditions"),
    ],
)
def test_load_folder_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str | None],
    file: str,
    part: str,
) -> None:
    """When the lab is loaded, in one line that names the file."""
    with pytest.raises(BadInput) as caught:
        loaded_folder(tmp_path, monkeypatch, changed)
    text = str(caught.value)
    assert text.startswith(str(tmp_path / "labs_echo" / file)) and part in text and "\n" not in text


@pytest.mark.parametrize(
    ("changed", "file", "part"),
    [
        ({"results": TAKEN}, "results.py", "declares link, which every study has already"),
        ({"results": NOT_A_COLUMN}, "results.py", "predicted_by byte, which is not a column"),
        ({"results": GROUP_TAKEN}, "results.py", "declares group, which every study has already"),
        (
            {"article9": ECHO["article9.toml"].replace('column = "bytes"', 'column = "byte"')},
            "article9.toml",
            "A9.1: byte is not a column of Results; did you mean bytes?",
        ),
    ],
)
def test_columns_refused_when_they_are_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str | None],
    file: str,
    part: str,
) -> None:
    """In one line that names the file; the run is never reached."""
    with pytest.raises(BadInput) as caught:
        lab = loaded_folder(tmp_path, monkeypatch, changed)
        verdicts_from(lab, [Source("", ())])
    text = str(caught.value)
    assert text.startswith(str(tmp_path / "labs_echo" / file)) and part in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("computed", "line"),
    [('self.run.fetch()["octets"]', 10), ('__import__("json").loads("{")', None)],
)
def test_an_error_in_a_column_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computed: str, line: int | None
) -> None:
    """If the lab raised it; what a parser raised is more likely a damaged run."""
    results = ECHO["results.py"].replace('self.run.fetch()["bytes"]', computed)
    lab = loaded_folder(tmp_path, monkeypatch, {"results": results})
    with pytest.raises(Damaged) as caught:
        lab.results(open_run(make_run(tmp_path / "runs", inputs("far", lab="echo"))))
    text, place = str(caught.value), f"{tmp_path / 'labs_echo' / 'results.py'}:"
    assert (f"{place}{line}, " in text) is (line is not None) and (place in text) is bool(line)
    assert AGAIN in text and "\n" not in text


@pytest.mark.parametrize(
    ("ledger", "part"),
    [
        (ECHO["article9.toml"].replace("bytes", "took_ms"), "A9.2: grouped is not a judging"),
        (ECHO["article9.toml"].replace("[article]", "[article"), "mine.toml: "),
    ],
)
def test_find_checks_the_ledger_of_an_own_file(tmp_path: Path, ledger: str, part: str) -> None:
    (tmp_path / "mine.toml").write_text(ledger)
    assert part in refused(written(tmp_path, new.source("mine")))


@pytest.mark.parametrize("name", ["./evil.py", "evil.py", "../evil", "evil", "/tmp/evil.py", ""])
def test_known_never_loads_a_file_that_a_run_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a lab in a run is a stranger's text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')")
    with pytest.raises(BadInput, match="not one of the package"):
        catalog.loaded(name)


def test_known_finds_labs_of_the_package_and_those_that_were_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_of_files", {})
    (tmp_path / "mine.py").write_text(new.source("mine"))
    with pytest.raises(BadInput):
        catalog.loaded("mine")
    mine = catalog.find(str(tmp_path / "mine.py"))
    assert catalog.loaded("mine") is mine
    assert catalog.loaded("nagle").name == "nagle"
