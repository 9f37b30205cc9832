"""The labs there are, and where the parts of each one live.

A lab of the package is one line in `LABS`: names of modules, imported when they are used. A lab
of the reader's own is one file that holds all parts (`labs new NAME` writes one)::

    Parameters              a frozen dataclass on LabParameters
    conditions(p)           what is run: a tuple of Condition
    measure(bench, c)       one run of one condition, where the hosts are: standard library only
    results(run)            what a run shows, computed on reading: a dict

It may also say which figure is to be known well when runs are repeated on real time, and how far
two testbeds may be apart in it, and which results `labs run` leaves out of its table::

    figure(results)         the name and the value of that figure, or None for a run without it
    MARGIN                  a Margin of labs.read.stats.testbed_comparison, with its reason
    HIDDEN                  a tuple of column names; they stay in results() and in --json
"""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.base import LabParameters
from labs.drive.parameters.declare import declared, did_you_mean
from labs.errors import BadInput, LabError

if TYPE_CHECKING:
    from labs.drive.condition import Condition

OWN_PARTS = ("Parameters", "conditions", "measure", "results")


@dataclass(frozen=True)
class Lab:
    """A lab: `parameters` is MODULE:CLASS, the other parts are modules; `source` is its file if
    it is the reader's own, which then holds every part."""

    name: str
    title: str
    parameters: str
    experiment: str
    analysis: str
    charts: str | None = None
    claims: str | None = None
    source: str | None = None

    def Parameters(self) -> type[LabParameters]:
        """The class of its parameters."""
        module, _, name = self.parameters.partition(":")
        cls: type[LabParameters] = getattr(importlib.import_module(module), name)
        return cls

    def experiment_module(self) -> ModuleType:
        """The module with `conditions(p)` and `measure(bench, condition)`."""
        return importlib.import_module(self.experiment)

    def conditions(self, p: LabParameters) -> tuple[Condition, ...]:
        """What is run for these parameters, `only` applied; BadInput if it names what is not."""
        asked: tuple[Condition, ...] = self.experiment_module().conditions(p)
        chosen = p.chosen([condition.name for condition in asked])
        return tuple(condition for condition in asked if condition.name in chosen)

    def analysis_module(self) -> ModuleType:
        """The module with `results(run)`."""
        return importlib.import_module(self.analysis)

    def hidden_columns(self) -> frozenset[str]:
        """The columns of its results that `labs run` leaves out of the table that it prints."""
        return frozenset(getattr(self.analysis_module(), "HIDDEN", ()))

    def charts_module(self) -> ModuleType:
        """The module with its figures; BadInput if the lab has none."""
        return self._optional("charts", self.charts)

    def claims_module(self) -> ModuleType:
        """The module with `verdicts(runs)` on an article; BadInput if the lab has none."""
        return self._optional("claims", self.claims)

    def _optional(self, part: str, module: str | None) -> ModuleType:
        if module is None:
            have = [lab.name for lab in LABS.values() if getattr(lab, part) is not None]
            raise BadInput(f"the lab {self.name} has no {part}; labs that do: {', '.join(have)}")
        return importlib.import_module(module)


def _of_the_package(name: str, cls: str, title: str, *, article: int | None = None) -> Lab:
    return Lab(
        name=name,
        title=title,
        parameters=f"labs.experiments.{name}.parameters:{cls}",
        experiment=f"labs.experiments.{name}.experiment",
        analysis=f"labs.experiments.{name}.results",
        charts=f"labs.experiments.{name}.charts",
        claims=f"labs.experiments.{name}.claims" if article else None,
    )


LABS: dict[str, Lab] = {
    lab.name: lab
    for lab in (
        _of_the_package("buffers", "Buffers", "How big socket buffers must be, when, and why",
                        article=1),
        _of_the_package("nagle", "Nagle", "Where a stall of 40 ms comes from", article=3),
    )
}

_own: dict[Path, tuple[bytes, Lab]] = {}


def find(name_or_path: str) -> Lab:
    """The lab of that name, or the one in the reader's own file (`./mylab.py`), which from then
    on is known by its name too.

    BadInput: no such lab or file, or a file that is no lab; nearest name, and the list.
    """
    known = {**{lab.name: lab for _, lab in _own.values()}, **LABS}
    if name_or_path in known:
        return known[name_or_path]
    path = Path(name_or_path)
    if path.suffix == ".py" or len(path.parts) > 1:
        return _find_own(path)
    here = Path(f"{name_or_path}.py")
    hint = (
        f"; did you mean ./{here}?" if here.is_file() else did_you_mean(name_or_path, LABS)
    )
    raise BadInput(
        f"{name_or_path or 'nothing'} is not a lab{hint}; labs: {', '.join(LABS)}, "
        "or a file of your own such as ./mylab.py"
    )


def lab_of(parameters: object) -> Lab:
    """The lab that an instance of a parameter class belongs to; BadInput if to none."""
    cls = type(parameters)
    where = f"{cls.__module__}:{cls.__qualname__}"
    for lab in (*LABS.values(), *(lab for _, lab in _own.values())):
        if lab.parameters == where:
            return lab
    raise BadInput(f"a {cls.__name__} is not the parameters of a lab; labs.check makes them")


def _find_own(path: Path) -> Lab:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{path}: {(error.strerror or str(error)).lower()}; labs new {path.stem} writes a lab "
            f"of your own, and the package has: {', '.join(LABS)}"
        ) from error
    if re.fullmatch(r"[a-z][a-z0-9_]*", path.stem) is None or path.stem in LABS:
        taken = "is a lab of the package" if path.stem in LABS else "cannot be a lab's name"
        raise BadInput(
            f"{path}: {path.stem} {taken}; name the file otherwise, in small letters, digits and _"
        )
    path = path.resolve()
    if path in _own and _own[path][0] == source:
        return _own[path][1]
    module = _load(path, source)
    doc = (module.__doc__ or "").strip().splitlines()
    lab = Lab(
        name=path.stem,
        title=doc[0] if doc else "",
        parameters=f"{module.__name__}:Parameters",
        experiment=module.__name__,
        analysis=module.__name__,
        source=str(path),
    )
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
        _judge(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(spec.name)
        if before is not None:
            sys.modules[spec.name] = before
        raise BadInput(f"{path.name}{_line_of(error, path)}: {_in_words(error)}") from error
    return module


def _judge(module: ModuleType) -> None:
    parts: dict[str, Any] = vars(module)
    missing = [name for name in OWN_PARTS if not callable(parts.get(name))]
    if missing:
        raise BadInput(
            f"it defines no {' and no '.join(missing)}; a lab has {', '.join(OWN_PARTS)}"
        )
    cls = parts["Parameters"]
    if not (isinstance(cls, type) and issubclass(cls, LabParameters)):
        raise BadInput("Parameters must be a class on LabParameters")
    declared(cls)


def _line_of(error: BaseException, path: Path) -> str:
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = None if isinstance(error, LabError) else error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


def _in_words(error: BaseException) -> str:
    if isinstance(error, LabError):
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"
