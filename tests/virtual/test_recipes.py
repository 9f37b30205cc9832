"""The recipes of docs/recipes.md print what the page shows."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from docs.recipe_tables import PAGE, PROGRAMS, ROOT, Recipe, programs, recipes
from labs import catalog
from labs.cli.command import prepare
from labs.drive.parameters.declare import LabParameters
from labs.drive.parameters.flags import from_flags
from labs.read.lab import Lab
from labs.studies.grid import varied_points
from tests.kept_runs import kept

TEXT = PAGE.read_text("utf-8")
SHOWN = list(recipes(TEXT))
CODE = re.compile(r"^```python\n(def .*?)^```$", re.DOTALL | re.MULTILINE)
MOST_LINES = 10
# Other kernels and programs take other moments, and so draw other random numbers. Where single
# draws or packets decide, goodput differs by up to this share.
CHANCE = 0.7


@pytest.mark.parametrize("recipe", SHOWN, ids=[recipe.name.split()[-1] for recipe in SHOWN])
def test_page_shows_what_a_recipe_prints(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_of_files", {})  # other tests know no such lab
    monkeypatch.setenv("LABS_BOOT", "seccomp")  # faster, and the bytes are the same
    monkeypatch.chdir(tmp_path)
    with kept(*of_the_command(recipe.commands[0])):
        output = recipe.output()
    if PROGRAMS.findall(TEXT) == [programs()]:
        assert output == recipe.table, f"run python3 docs/recipe_tables.py, or write:\n{output}"
    assert goodputs(output) == {
        name: pytest.approx(value, rel=CHANCE) for name, value in goodputs(recipe.table).items()
    }


def of_the_command(words: tuple[str, ...]) -> tuple[Lab, Sequence[LabParameters]]:
    """The lab of `labs run LAB [...]`, and the parameters of its points."""
    given = [str(ROOT / words[2]) if "/" in words[2] else words[2], *words[3:]]
    args = prepare("run", given).parser.read(given)
    lab = catalog.find(args.lab)
    parameters, over = from_flags(lab.Parameters, args)
    return lab, varied_points(parameters, over)[1] if over else [parameters]


def goodputs(table: str) -> dict[str, float]:
    """The first number of each row, by its first word."""
    rows = [line.split() for line in table.splitlines()]
    return {row[0]: float(row[1]) for row in rows if len(row) > 1 and row[1][0].isdigit()}


def test_page_shows_the_questions_as_they_are() -> None:
    path = ROOT / "docs" / "recipes" / "questions.py"
    spec = importlib.util.spec_from_file_location("questions", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sources = [inspect.getsource(question) for question in module.QUESTIONS]
    assert CODE.findall(TEXT) == sources
    assert max(len(source.splitlines()) for source in sources) <= MOST_LINES
    asked = [recipe.commands[0][-1] for recipe in SHOWN if "questions.py" in recipe.commands[0][2]]
    assert asked == [",".join(question()) for question in module.QUESTIONS]


def test_every_table_of_the_page_is_that_of_a_recipe() -> None:
    assert TEXT.count("```text\n") == len(SHOWN)
    assert all(recipe.table and goodputs(recipe.table) for recipe in SHOWN)
