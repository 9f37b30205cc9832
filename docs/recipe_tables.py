"""Write the tables of docs/recipes.md: the output of its recipes, whose runs are performed.

python3 docs/recipe_tables.py

A table is the output of the first command above it or, if the commands export runs, of the Python
code in between. Runs repeat to the byte, so tests/virtual/test_recipes.py expects every digit where
the kernel and the programs are those of the page: the digest at its end names them.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

if __package__ in (None, ""):  # started as a file: its folder is on the path, the project is not
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labs.catalog import find
from labs.cli.__main__ import main
from labs.drive.record.seal import canonical, digest
from labs.launch.plan import plan

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "recipes.md"
RECIPES = ("buffer_sysctls", "lossy_path", "questions")
TABLE = re.compile(
    r"(?P<shell>(?:^    .*\n)+)\n```python\n(?P<code>(?:(?!```).*\n)+)```\n\n"
    r"```text\n(?P<table>(?:(?!```).*\n)+)```\n",
    re.MULTILINE,
)
PROGRAMS = re.compile(r"(?<=<!-- kernel and programs: )\w+(?= -->\n)")


@dataclass(frozen=True)
class Recipe:
    """The commands and the code above a table of the page, and the table that the page shows."""

    commands: tuple[tuple[str, ...], ...]
    code: str
    table: str

    @property
    def name(self) -> str:
        """The first words of its command that differ from others: `questions.py fifo,fq-codel`."""
        return " ".join(Path(word).name for word in self.commands[0][2:] if word != "--only")

    def output(self) -> str:
        """Its output now; its runs are in the current folder."""
        run, *others = self.commands
        printed = _printed(run).partition("\n\n")[0]
        exports = [path for path in others if "export" in path]
        for export in exports:
            _printed(export)
        lines = (_value(self.code) if exports else printed).splitlines()
        return "".join(f"{line.rstrip()}\n" for line in lines)


def recipes(page: str) -> Iterator[Recipe]:
    """The recipes of the page with a table, in its order."""
    for match in TABLE.finditer(page):
        lines = match["shell"].replace("\\\n", " ").splitlines()
        commands = tuple(tuple(shlex.split(line, comments=True)) for line in lines)
        yield Recipe(commands, match["code"], match["table"])


def programs() -> str:
    """The first digits of a digest of the kernel, libraries and tools that the recipes use."""
    used: dict[str, object] = {}
    for name in RECIPES:
        lab = find(str(ROOT / "docs" / "recipes" / f"{name}.py"))
        for run in plan(lab, lab.Parameters()):
            used |= {"kernel": run.inputs["kernel"]["digest"], **run.inputs["libraries"]}
            used |= run.inputs["tools"]
    return digest(canonical(used))[:12]


def _printed(command: tuple[str, ...]) -> str:
    words = [str(ROOT / word) if word.startswith("docs/") else word for word in command[1:]]
    with redirect_stdout(StringIO()) as printed:
        code = main(words)
    if code:
        sys.exit(code)
    return printed.getvalue()


def _value(code: str) -> str:
    """The text of the last expression of this code."""
    *before, last = ast.parse(code).body
    names: dict[str, object] = {}
    exec(compile(ast.Module(before, []), str(PAGE), "exec"), names)
    assert isinstance(last, ast.Expr)
    return str(eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names))


def write() -> None:
    """Perform the recipes in a temporary folder, and write their output into the page."""
    page = PAGE.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for recipe in recipes(page):
            page = page.replace(f"```text\n{recipe.table}```", f"```text\n{recipe.output()}```")
    PAGE.write_text(PROGRAMS.sub(programs(), page), "utf-8")


if __name__ == "__main__":
    write()
