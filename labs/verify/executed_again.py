"""Execute the notebooks of a bundle again on its runs, and compare the outputs of their code cells.

Numbers and words are compared: printed text, results and figures. Outputs without either, such as
images, are compared byte by byte, and listed if they differ. This executes somebody else's code
with the caller's permissions.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from labs.errors import Damaged, LabError
from labs.publish.output_html import plain_text
from labs.read.display.provenance import LIVE, RECORDED
from labs.read.notebook_file import FIGURE, NOT_PYTHON, NotebookFile, code_cells, joined, parameters

RUNS = "RUNS"
HTML, STDERR = "text/html", "stderr"
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
"""The address of an object in memory, which Python prints for objects without their own repr."""
ORIGIN, SPACES = re.compile(rf"\b(?:{LIVE}|{RECORDED})\b"), re.compile(" {2,}")


@dataclass(frozen=True)
class Output:
    """An output of a cell: its kind (a media type, or the name of a stream), the numbers and words
    that are compared, and all of it as one text."""

    kind: str
    words: tuple[str, ...]
    whole: str


@dataclass(frozen=True)
class Cells:
    """A notebook executed again: which of its code cells, counted from 1, show other numbers or
    words, the first difference, and why it stopped, if it did. `of_machine` are those that differ
    because they measure the machine (`labs.audit()`). `not_compared` has, by cell, the kinds of
    outputs that differ although their numbers and words are equal."""

    notebook: str
    compared: int
    changed: tuple[int, ...]
    first: str = ""
    stopped: str = ""
    of_machine: tuple[int, ...] = ()
    not_compared: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        return not self.changed and not self.stopped

    def as_json(self) -> dict[str, Any]:
        lists = {"changed": list(self.changed), "of_machine": list(self.of_machine)}
        kinds = {str(cell): list(some) for cell, some in self.not_compared.items()}
        return {**asdict(self), **lists, "not_compared": kinds, "equal": self.equal}


def execute_again(notebook: NotebookFile, runs: Path, work: Path, *, progress: bool) -> Cells:
    """Execute a notebook in the folder `work`, with its own parameters and the packed file of runs
    as RUNS; a notebook without that parameter reads the runs that it names."""
    # Loads papermill: who verifies without executing needs none of the extras.
    from labs.publish.execute import execute, open_notebook  # noqa: PLC0415

    cells = code_cells(notebook.content["cells"])
    try:
        values = parameters(notebook)
        named = str(values.get(RUNS, ""))
        if RUNS in values:
            values[RUNS] = str(runs)
        with contextlib.chdir(work):
            done = execute(open_notebook(notebook), notebook.path, values, progress=progress)
    except LabError as error:
        return Cells(notebook.stem, 0, (), stopped=str(error))

    # The copy of the runs has another path, and its runs are recorded where the author's were live.
    source = re.compile(rf"· (?:live(?:, in {re.escape(named)})?|{RECORDED})(?![\w,])")

    def alike(text: str) -> str:
        text = ADDRESS.sub("0x0", source.sub(f"· {RECORDED}", text.replace(str(runs), named)))
        # In a table of plain text the longer word also widens its column.
        return SPACES.sub(" ", ORIGIN.sub(RECORDED, text)) if ORIGIN.search(text) else text

    before = [list(_outputs(cell, alike)) for cell in cells]
    after = [list(_outputs(cell, alike)) for cell in code_cells(done.cells)]
    if len(before) != len(after):
        raise Damaged(f"{notebook.path} has other cells after it was executed again")
    pairs = list(enumerate(zip(before, after, strict=True), start=1))
    differing = [at for at, pair in pairs if _words(pair[0]) != _words(pair[1])]
    of_machine = tuple(at for at in differing if _measures_machine(cells[at - 1]))
    changed = tuple(at for at in differing if at not in of_machine)
    first = _first(*map(_words, pairs[changed[0] - 1][1])) if changed else ""
    left = {at: kinds for at, pair in pairs if at not in differing and (kinds := _left(*pair))}
    return Cells(
        notebook.stem, len(pairs), changed, first, of_machine=of_machine, not_compared=left
    )


def _measures_machine(cell: Mapping[str, Any]) -> bool:
    """Whether a cell calls `labs.audit()`, which reads the settings of this machine."""
    try:
        calls = [
            node
            for node in ast.walk(ast.parse(joined(cell["source"])))
            if isinstance(node, ast.Call)
        ]
    except NOT_PYTHON:
        return False
    return any(
        ast.unparse(call.func) == "labs.audit" and not call.args and not call.keywords
        for call in calls
    )


def _words(outputs: Sequence[Output]) -> list[str]:
    return [word for output in outputs for word in output.words]


def _first(earlier: list[str], later: list[str]) -> str:
    """The first difference, with the word in front of it on either side."""
    for at, (before, after) in enumerate(zip(earlier, later, strict=False)):
        if before != after:
            return f"{before[:40]} -> {after[:40]}" + (
                f" after {earlier[at - 1][:40]}" if at else ""
            )
    return f"{len(earlier)} words -> {len(later)}"


def _left(before: Sequence[Output], after: Sequence[Output]) -> tuple[str, ...]:
    """The kinds of outputs that differ although their words are equal: images, markup."""
    pairs = zip_longest(before, after)
    kinds = [(old or new).kind for old, new in pairs if old != new and (old or new)]
    return tuple(dict.fromkeys(kinds))


def _outputs(cell: Mapping[str, Any], alike: Callable[[str], str]) -> Iterator[Output]:
    """The outputs of a cell; all that was printed to one stream is one output."""
    printed: dict[str, str] = {}
    for output in cell.get("outputs", ()):
        kind = output.get("output_type")
        if kind == "stream":
            name = str(output.get("name"))
            printed[name] = printed.get(name, "") + alike(joined(output.get("text", "")))
        elif kind == "error":
            message = alike(f"{output.get('ename')}: {output.get('evalue')}")
            yield Output("error", tuple(message.split()), message)
        else:
            for name, value in sorted(output.get("data", {}).items()):
                same = _in_texts(_one_text(value), alike)
                yield Output(name, tuple(_in_data(name, same)), json.dumps(same, sort_keys=True))
    for name, text in sorted(printed.items()):
        yield Output(name, () if name == STDERR else tuple(text.split()), text)


def _in_data(kind: str, value: Any) -> Iterator[str]:
    """The numbers and words of an output of this media type; none in an image."""
    if kind == FIGURE:
        yield from _in_figure(value)
    elif kind == HTML:
        yield from plain_text(joined(value)).split()
    elif kind.startswith("text/"):
        yield from joined(value).split()


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A value of JSON with every text in it changed."""
    if isinstance(value, dict):
        return {name: _in_texts(part, change) for name, part in value.items()}
    if isinstance(value, list):
        return [_in_texts(part, change) for part in value]
    return change(value) if isinstance(value, str) else value


def _one_text(value: Any) -> Any:
    """An output's value, with the lines of a text joined."""
    lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
    return "".join(value) if lines else value


def _in_figure(value: Any) -> Iterator[str]:
    """Every number and word in a figure, after the names of its parts; arrays are base64 in
    plotly's JSON."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield from (f"{name}:{word}" for word in _in_figure(value[name]))
    elif isinstance(value, list):
        for part in value:
            yield from _in_figure(part)
    elif isinstance(value, str):
        yield from plain_text(value).split()
    elif value is not None:
        yield json.dumps(value)
