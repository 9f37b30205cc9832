"""The labs: a folder of `labs/experiments` each, or one file of the reader's own.

A lab of the package is a folder with these parts, of which the first three are required. A part is
a module::

    conditions.py   its title (the docstring), Parameters, conditions; optional: GROUPS, MARGIN,
                    tools, machine_tools, lines
    experiment.py   measure(bench, condition): one run, on the hosts
    results.py      Results: a class made from a run, whose columns are methods
    settings.py     a frozen dataclass: the settings of a condition, as `measure` reads them
    figures.py      what its notebook calls as `labs.charts.LAB.NAME` and `labs.LAB.NAME`; optional:
                    describe(table), describe_run(run), findings(runs, parameters), remarks(table)
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
from types import ModuleType
from typing import Any

from labs.drive.imports import imported
from labs.drive.parameters.declare import SIZES, LabParameters, declared, nearest, shown, unknown
from labs.drive.result_columns import Margin
from labs.errors import BadInput, LabError
from labs.guest.condition import Group
from labs.read.lab import Lab, checked_columns, last_line, wrong_conditions

EXPERIMENTS = Path(__file__).parent / "experiments"
PACKAGE = "labs.experiments"
NAMED = ("Parameters", "conditions", "measure", "Results")
FOLDER = ("conditions.py", "experiment.py", "results.py")
ON_TESTBED = ("labs.guest.", "labs.drive.", "labs.errors.")
"""What a run can load on its testbed, besides the standard library."""

LABS = tuple(sorted(path.parent.name for path in EXPERIMENTS.glob("*/conditions.py")))
"""The names of the package's labs."""

_of_package: dict[str, Lab] = {}
_of_files: dict[Path, tuple[bytes, Lab]] = {}
"""The labs of the reader's files, each with the source from which it was loaded."""


def find(name_or_path: str) -> Lab:
    """The lab of that name, or the one in the reader's own file (`./mylab.py`), which from then
    on is known by its name too.

    BadInput: no such lab or file, or a file that is not a lab; nearest name, and the list.
    """
    lab, path = _named(name_or_path), Path(name_or_path)
    if lab is not None:
        return lab
    if path.suffix == ".py" or len(path.parts) > 1:
        return _find_file(path)
    here = Path(f"{name_or_path}.py")
    near = f"./{here}" if here.is_file() else nearest(name_or_path, LABS)
    hint = f'; did you mean "{near}"?' if near else "."
    raise BadInput(
        f'unknown lab "{name_or_path}"{hint} Available: {", ".join(LABS)}, or a file '
        "such as ./mylab.py"
    )


def loaded(name: str) -> Lab:
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
    at_hand = (*_of_package.values(), *(lab for _, lab in _of_files.values()))
    for lab in chain(at_hand, map(_packaged, LABS)):  # mostly one that is loaded
        if lab.Parameters is cls:
            return lab
    raise BadInput(f"a {cls.__name__} does not contain the parameters of a lab. Use labs.check")


def with_ledgers() -> tuple[Lab, ...]:
    """The package's labs that are about an article."""
    return tuple(lab for lab in map(_packaged, LABS) if lab.ledger is not None)


def _named(name: str) -> Lab | None:
    of_files = {lab.name: lab for _, lab in _of_files.values()}
    return _packaged(name) if name in LABS else of_files.get(name)


def _packaged(name: str) -> Lab:
    if name not in _of_package:
        _of_package[name] = load_folder(EXPERIMENTS / name, f"{PACKAGE}.{name}")
    return _of_package[name]


def load_folder(folder: Path, package: str) -> Lab:
    """The lab in a folder that is the package `package`; BadInput, with the file, if it is none."""
    missing = [name for name in FOLDER if not (folder / name).is_file()]
    if missing:
        raise BadInput(f"{folder}: a lab has {', '.join(FOLDER)}; missing: {', '.join(missing)}")
    ledger = next(iter(sorted(folder.glob("article*.toml"))), None)
    _check_defines(folder / "experiment.py", "measure")
    _check_defines(folder / "results.py", "Results")
    _check_guest(folder / "experiment.py", package)
    if ledger is not None:
        _check_ledger(ledger, folder / "claims.py")
    try:
        front = importlib.import_module(f"{package}.conditions")
        _check_front(front, ("Parameters", "conditions"))
    except Exception as error:
        raise _refused(error, folder / "conditions.py") from error

    def part(name: str) -> ModuleType | None:
        if (folder / f"{name}.py").is_file():
            return importlib.import_module(f"{package}.{name}")
        return None

    return _lab(folder.name, front, f"{package}.experiment", part, ledger)


def _lab(name: str, front: ModuleType, experiment: str, part: Any, ledger: Path | None) -> Lab:
    """A lab whose front declares what it is; what it leaves out has the default of `Lab`."""
    title = next(iter((front.__doc__ or "").strip().splitlines()), "").rstrip(".")
    parts = vars(front)
    given = {
        field: parts[name]
        for name, field in OF_FRONT.items()
        if name in parts and (name.isupper() or callable(parts[name]))
    }
    return Lab(name=name, title=title, experiment=experiment, part=part, ledger=ledger, **given)


OF_FRONT = {"conditions": "all_conditions", "GROUPS": "groups", "MARGIN": "_margin"} | {
    name: name for name in ("Parameters", "tools", "machine_tools", "lines")
}
"""The fields of a lab by the names in its front."""


def _find_file(path: Path) -> Lab:
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
    if path not in _of_files or _of_files[path][0] != source:
        _of_files[path] = source, _lab_in(path, source)
    return _of_files[path][1]


def _lab_in(path: Path, source: bytes) -> Lab:
    """The lab in a file, with the ledger beside it, if there is one."""
    module, ledger = _load(path, source), path.with_suffix(".toml")
    marks = {"results": "Results", "figures": "describe", "claims": "JUDGES"}

    def part(name: str) -> ModuleType | None:
        return module if hasattr(module, marks.get(name, "")) else None

    if ledger.is_file():
        _check_ledger(ledger, path)
    named = ledger if ledger.is_file() else None
    return replace(_lab(path.stem, module, module.__name__, part, named), source=path)


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
    except (Exception, SystemExit) as error:
        sys.modules.pop(spec.name)
        if before is not None:
            sys.modules[spec.name] = before
        raise _refused(error, path, path.name) from error
    return module


def _check_front(module: ModuleType, names: tuple[str, ...]) -> None:
    """BadInput if a module does not declare what a lab is, or declares it wrongly."""
    parts: dict[str, Any] = vars(module)
    missing = [name for name in names if not callable(parts.get(name))]
    if missing:
        raise BadInput(f"it defines no {' and no '.join(missing)}. Required: {', '.join(names)}")
    cls, groups = parts["Parameters"], parts.get("GROUPS", ())
    if not (isinstance(cls, type) and issubclass(cls, LabParameters)):
        raise BadInput("Parameters must be a subclass of LabParameters")
    declared(cls)
    if not isinstance(parts.get("MARGIN"), Margin | None):
        raise BadInput("MARGIN must be a Margin of labs.drive.result_columns")
    if not (isinstance(groups, tuple) and all(isinstance(group, Group) for group in groups)):
        raise BadInput("GROUPS must be a tuple of Group, of labs.guest.condition")
    counts = Counter(group.name for group in groups)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise BadInput(f"GROUPS declares {', '.join(twice)} twice. Remove one")
    _check_conditions(parts)


def _check_conditions(parts: dict[str, Any]) -> None:
    """BadInput for two conditions with the same name, or a group that the lab does not declare.

    What the lab itself rejects is reported when its conditions are requested.
    """
    for size in SIZES:
        try:
            every = parts["conditions"](parts["Parameters"](size=size))
        except (LabError, OSError):
            continue
        if problem := wrong_conditions(every, parts.get("GROUPS", ())):
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


def _tree(path: Path) -> ast.Module:
    """A file parsed; BadInput if it is not Python."""
    return _parsed(path.read_bytes(), path)


@lru_cache(maxsize=4)  # several checks read a file one after another
def _parsed(source: bytes, path: Path) -> ast.Module:
    try:
        return ast.parse(source, path)
    except (SyntaxError, ValueError) as error:
        raise _refused(error, path) from error


def _check_guest(path: Path, package: str = "") -> None:
    """BadInput if a file that runs where the hosts are imports what is not there, itself or by
    another module of its own package."""
    waiting, seen = [path], set[Path]()
    while waiting:
        file = waiting.pop()
        seen.add(file)
        for name in imported(_tree(file), whole=False):
            top = name.split(".")[0]
            if package and name.startswith(f"{package}."):
                module = path.parent / f"{name.removeprefix(package + '.').split('.')[0]}.py"
                waiting += {module} - seen if module.is_file() else ()
            elif top not in sys.stdlib_module_names and not f"{name}.".startswith(ON_TESTBED):
                raise BadInput(
                    f"{file}: it imports {name}, which a run cannot load on its testbed. "
                    "Allowed: the standard library, labs.guest and labs.errors. Import it in "
                    "the function that needs it, or under TYPE_CHECKING"
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
    for node in _tree(claims).body:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Dict) and re.match(r"JUDGES\b", ast.unparse(node)):
            return [str(key.value) for key in value.keys if isinstance(key, ast.Constant)]
    return []


def _refused(error: BaseException, file: Path, name: str = "") -> BadInput:
    """What a lab raised while it was loaded, with the last line in its file that took part, or in
    one beside it; `name` is the file as the reader wrote it."""
    if isinstance(error, LabError):
        return BadInput(f"{name or file}: {str(error).removeprefix(f'{file}: ')}")
    place, line = last_line(
        error, lambda path: path == file or (not name and file.parent in path.parents)
    )
    where = f"{name or place or file}" + (f", line {line}" if line else "")
    words = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return BadInput(f"{where}: {type(error).__name__}: {words}")
