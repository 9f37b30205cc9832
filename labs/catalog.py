"""The labs: a folder of `labs/experiments` each, or one file of the reader's own.

A lab of the package is a folder with these parts, of which the first three are required. A part is
a module, or a folder of modules::

    conditions.py   its title (the docstring), Parameters, conditions; optional: GROUPS, MARGIN,
                    tools, machine_tools, lines, and PARTS, the modules of parts that it shares with
                    other labs ({"results": "labs.read.readings.traffic_results"})
    experiment.py   measure(bench, condition): one run, on the hosts
    results.py      Results: a class made from a run, whose columns are methods
    settings.py     a frozen dataclass: the settings of a condition, as `measure` reads them
    figures.py      what its notebook calls as `labs.charts.LAB.NAME` and `labs.LAB.NAME`; optional:
                    describe(table), describe_run(run), findings(runs, parameters), remarks(table).
                    Some labs still have charts.py, notebook.py and narrative.py in its place
    articleN.toml, claims.py    the claims of an article; JUDGES, for what no column decides

A lab of the reader's own is one file with the names Parameters, conditions, measure, Results
(`labs new NAME` writes one). What runs where the hosts are is standard library and `labs.drive`.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from itertools import chain
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from labs.drive.condition import Group
from labs.drive.imports import imported
from labs.drive.parameters.declare import SIZES, LabParameters, declared, nearest, shown, unknown
from labs.drive.result_columns import Margin
from labs.errors import BadInput, LabError
from labs.read.lab import Lab, checked_columns, wrong_conditions

EXPERIMENTS = Path(__file__).parent / "experiments"
PACKAGE = "labs.experiments"
NAMED = ("Parameters", "conditions", "measure", "Results")
RESULTS = "results.py"
FOLDER = ("conditions.py", "experiment.py", RESULTS)
FIGURES = ("charts", "narrative", "notebook")
"""The parts that `figures.py` of a lab is, each of them."""

LABS = tuple(sorted(path.parent.name for path in EXPERIMENTS.glob("*/conditions.py")))
"""The names of the package's labs."""

_loaded: dict[str, Lab] = {}
_own: dict[Path, tuple[bytes, Lab]] = {}


def find(name_or_path: str) -> Lab:
    """The lab of that name, or the one in the reader's own file (`./mylab.py`), which from then
    on is known by its name too.

    BadInput: no such lab or file, or a file that is not a lab; nearest name, and the list.
    """
    lab, path = _named(name_or_path), Path(name_or_path)
    if lab is not None:
        return lab
    if path.suffix == ".py" or len(path.parts) > 1:
        return _find_own(path)
    here = Path(f"{name_or_path}.py")
    near = f"./{here}" if here.is_file() else nearest(name_or_path, LABS)
    hint = f'; did you mean "{near}"?' if near else "."
    raise BadInput(
        f'unknown lab "{name_or_path}"{hint} Available: {", ".join(LABS)}, or a file '
        "such as ./mylab.py"
    )


def known(name: str) -> Lab:
    """The lab of a run or a study: one of the package, or one that this process has loaded.

    A run may come from a stranger, so the name in it never loads a file. BadInput for any other.
    """
    lab = _named(name)
    if lab is None:
        raise BadInput(
            f"the lab {shown(name)} is not one of the package. Allowed: {', '.join(LABS)}. For a "
            "lab of your own, name its file with --lab ./mylab.py"
        )
    return lab


def lab_of(parameters: object) -> Lab:
    """The lab that an instance of a parameter class belongs to; BadInput if to none."""
    cls = type(parameters)
    loaded = (*_loaded.values(), *_own_labs().values())
    for lab in chain(loaded, map(_of_the_package, LABS)):  # mostly one that is loaded
        if lab.Parameters is cls:
            return lab
    raise BadInput(f"a {cls.__name__} does not contain the parameters of a lab. Use labs.check")


def with_ledgers() -> tuple[Lab, ...]:
    """The package's labs that are about an article."""
    return tuple(lab for lab in map(_of_the_package, LABS) if lab.ledger is not None)


def _named(name: str) -> Lab | None:
    return _of_the_package(name) if name in LABS else _own_labs().get(name)


def _own_labs() -> dict[str, Lab]:
    return {lab.name: lab for _, lab in _own.values()}


def _of_the_package(name: str) -> Lab:
    if name not in _loaded:
        _loaded[name] = load_folder(EXPERIMENTS / name, f"{PACKAGE}.{name}")
    return _loaded[name]


def load_folder(folder: Path, package: str) -> Lab:
    """The lab in a folder that is the package `package`; BadInput, with the file, if it is none."""
    missing = [name for name in FOLDER if not (folder / name).is_file()]
    if missing and missing != [RESULTS]:
        raise _lacks(folder, missing)
    ledger = next(iter(sorted(folder.glob("article*.toml"))), None)
    _check_files(folder, package, ledger)
    try:
        front = importlib.import_module(f"{package}.conditions")
        _check_front(front, ("Parameters", "conditions"))
        _check_conditions(front)
    except Exception as error:
        raise _refused(error, folder / "conditions.py") from error
    shared: dict[str, str] = vars(front).get("PARTS", {})
    if missing and "results" not in shared:
        raise _lacks(folder, missing)

    def part(name: str) -> ModuleType | None:
        if name in FIGURES and name not in shared and (folder / "figures.py").is_file():
            name = "figures"
        if (folder / name).is_dir() or (folder / f"{name}.py").is_file():
            return importlib.import_module(f"{package}.{name}")
        return importlib.import_module(shared[name]) if name in shared else None

    return _lab(folder.name, front, f"{package}.experiment", part, ledger)


def _lacks(folder: Path, missing: list[str]) -> BadInput:
    return BadInput(f"{folder}: a lab has {', '.join(FOLDER)}; missing: {', '.join(missing)}")


def _lab(name: str, front: ModuleType, experiment: str, part: Any, ledger: Path | None) -> Lab:
    """A lab whose front declares what it is; what it leaves out has the default of `Lab`."""
    title = next(iter((front.__doc__ or "").strip().splitlines()), "").rstrip(".")
    given = {field: vars(front)[key] for key, field in OF_FRONT.items() if key in vars(front)}
    given |= {key: vars(front)[key] for key in HOOKS if callable(vars(front).get(key))}
    return Lab(name=name, title=title, experiment=experiment, part=part, ledger=ledger, **given)


OF_FRONT = {
    "Parameters": "Parameters",
    "conditions": "all_conditions",
    "GROUPS": "groups",
    "MARGIN": "_margin",
}
HOOKS = ("tools", "machine_tools", "lines")


def _find_own(path: Path) -> Lab:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{path}: {(error.strerror or str(error)).lower()}. `labs new {path.stem}` writes a "
            f"lab of your own; the package has: {', '.join(LABS)}"
        ) from error
    if re.fullmatch(r"[a-z][a-z0-9_]*", path.stem) is None or path.stem in LABS:
        taken = "is a lab of the package" if path.stem in LABS else "cannot be a lab's name"
        raise BadInput(
            f"{path}: {path.stem} {taken}. Rename the file: lower-case letters, digits and "
            "underscores only"
        )
    path = path.resolve()
    if path in _own and _own[path][0] == source:
        return _own[path][1]
    module = _load(path, source)

    def part(name: str) -> ModuleType | None:
        has = {"results": "Results", "narrative": "describe", "claims": "JUDGES"}
        return module if hasattr(module, has.get(name, "")) else None

    ledger = path.with_suffix(".toml") if path.with_suffix(".toml").is_file() else None
    if ledger is not None:
        _check_ledger(ledger, path)
    lab = replace(_lab(path.stem, module, module.__name__, part, ledger), source=path)
    _own[path] = (source, lab)
    return lab


def _load(path: Path, source: bytes) -> ModuleType:
    """Run the file as a module of its own name, without leaving a __pycache__ beside it."""
    spec = ModuleSpec(f"labs_own_{path.stem}", None, origin=str(path))
    module = module_from_spec(spec)
    module.__file__ = str(path)
    before = sys.modules.get(spec.name)
    sys.modules[spec.name] = module  # dataclasses looks its annotations up there
    try:
        exec(compile(source, path, "exec"), module.__dict__)
        _check_front(module, NAMED)
        _check_guest(path)
        checked_columns(vars(module)["Results"])
        _check_conditions(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(spec.name)
        if before is not None:
            sys.modules[spec.name] = before
        raise _refused(error, path, path.name) from error
    return module


def _check_front(module: ModuleType, names: tuple[str, ...]) -> None:
    parts: dict[str, Any] = vars(module)
    missing = [name for name in names if not callable(parts.get(name))]
    if missing:
        raise BadInput(f"it defines no {' and no '.join(missing)}. Required: {', '.join(names)}")
    cls = parts["Parameters"]
    if not (isinstance(cls, type) and issubclass(cls, LabParameters)):
        raise BadInput("Parameters must be a subclass of LabParameters")
    declared(cls)
    if not isinstance(parts.get("MARGIN"), Margin | None):
        raise BadInput("MARGIN must be a Margin of labs.drive.result_columns")
    groups = parts.get("GROUPS", ())
    if not (isinstance(groups, tuple) and all(isinstance(group, Group) for group in groups)):
        raise BadInput("GROUPS must be a tuple of Group, of labs.drive.condition")
    counts = Counter(group.name for group in groups)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise BadInput(f"GROUPS declares {', '.join(twice)} twice. Remove one")


def _check_files(folder: Path, package: str, ledger: Path | None) -> None:
    """BadInput if the files of a lab lack what a lab must have; they are not loaded."""
    _check_defines(folder / "experiment.py", "measure")
    if (folder / RESULTS).is_file():
        _check_defines(folder / RESULTS, "Results")
    _check_guest(folder / "experiment.py", package)
    if ledger is not None:
        module = folder / "claims.py"
        claims = module if module.is_file() else folder / "claims" / "__init__.py"
        _check_ledger(ledger, claims)


def _check_conditions(front: ModuleType) -> None:
    """BadInput for two conditions with the same name, or a group that the lab does not declare.

    What the lab itself rejects is reported when its conditions are requested.
    """
    parts: dict[str, Any] = vars(front)
    for size in SIZES:
        try:
            every = parts["conditions"](parts["Parameters"](size=size))
        except (LabError, OSError):
            continue
        problem = wrong_conditions(every, parts.get("GROUPS", ()))
        if problem:
            raise BadInput(problem)


def _check_defines(path: Path, name: str) -> None:
    """BadInput if a module has no function or class of that name, its own or imported."""
    names = {
        str(getattr(part, "asname", None) or getattr(part, "name", ""))
        for node in _tree(path).body
        for part in (node.names if isinstance(node, ast.ImportFrom) else [node])
    }
    if name not in names:
        raise BadInput(f"{path}: it defines no {name}. Add {name} to it")


_parsed = lru_cache(maxsize=4)(ast.parse)
"""Parses a source that several checks read one after another once."""


def _tree(path: Path) -> ast.Module:
    """A file parsed; BadInput if it is not Python."""
    try:
        tree: ast.Module = _parsed(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        raise _refused(error, path) from error
    return tree


def _check_guest(path: Path, package: str = "") -> None:
    """BadInput if a file that runs where the hosts are imports what is not there, itself or by
    another module of its own package."""
    waiting, seen = [path], set[Path]()
    while waiting:
        file = waiting.pop()
        seen.add(file)
        for name in imported(_tree(file), whole=False):
            if package and name.startswith(f"{package}."):
                module = path.parent / f"{name.removeprefix(package + '.').split('.')[0]}.py"
                waiting += {module} - seen if module.is_file() else ()
            elif not _is_on_testbed(name):
                raise BadInput(
                    f"{file}: it imports {name}, which a run cannot load on its testbed. "
                    "Allowed: the standard library, labs.drive and labs.errors. Import it in "
                    "the function that needs it, or under TYPE_CHECKING"
                )


def _is_on_testbed(name: str) -> bool:
    return name.split(".")[0] in sys.stdlib_module_names or f"{name}.".startswith(
        ("labs.drive.", "labs.errors.")
    )


def _check_ledger(ledger: Path, claims: Path) -> None:
    """BadInput if a claim of a ledger names a judging function that the lab lacks."""
    try:
        entries = tomllib.loads(ledger.read_text("utf-8")).get("claim", ())
    except ValueError as error:
        raise BadInput(f"{ledger}: {' '.join(str(error).split())}") from error
    judges = _judges(claims) if claims.is_file() else []
    for claim in entries:
        judge = claim.get("judge")
        if judge is not None and judge not in judges:
            wrong = unknown(str(judge), judges or ["none"], "judging function")
            raise BadInput(f"{ledger}: {claim.get('id')}: {wrong}")


def _judges(claims: Path) -> list[str]:
    """The names in the dict JUDGES of a file, which is not loaded."""
    return [
        str(key.value)
        for node in _tree(claims).body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        and isinstance(node.value, ast.Dict)
        and re.match(r"JUDGES\b", ast.unparse(node))
        for key in node.value.keys
        if isinstance(key, ast.Constant)
    ]


def _refused(error: BaseException, file: Path, name: str = "") -> BadInput:
    """What a lab raised while it was loaded, with the last line in its file that took part, or in
    one beside it; `name` is the file as the reader wrote it."""
    if isinstance(error, LabError):
        return BadInput(f"{name or file}: {str(error).removeprefix(f'{file}: ')}")
    frames = [(frame.filename, frame.lineno) for frame in extract_tb(error.__traceback__)]
    words = " ".join(str(error).split())
    if isinstance(error, SyntaxError):
        frames.append((error.filename or str(file), error.lineno))
        words = error.msg
    of_the_lab = [
        (path, line)
        for path, line in frames
        if path == str(file) or (not name and file.parent in Path(path).parents)
    ]
    place, line = of_the_lab[-1] if of_the_lab else (str(file), None)
    where = f"{name or place}, line {line}" if line else name or place
    return BadInput(f"{where}: {type(error).__name__}: {words}")
