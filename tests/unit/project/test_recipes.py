"""The recipes in docs/recipes.md: what the page quotes is in their files, and each is a lab."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labs import catalog
from labs.cli.run import preview

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "recipes.md"
RECIPES = sorted((DOCS / "recipes").glob("*.py"))
ELSEWHERE = "import pandas"
"""A block that begins so is for a notebook."""


def test_page_quotes_the_recipes() -> None:
    text = PAGE.read_text("utf-8")
    named = set(re.findall(r"docs/recipes/(\w+\.py)", text))
    assert named == {one.name for one in RECIPES}
    sources = [one.read_text("utf-8") for one in RECIPES]
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    quoted = [block for block in blocks if not block.startswith(ELSEWHERE)]
    assert len(quoted) == len(RECIPES)
    for block in quoted:
        assert any(block in source for source in sources), block


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipe_is_a_lab(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_own", {})  # other tests know no such lab
    lab = catalog.find(str(recipe))
    steps = preview(lab, lab.Parameters(runs=str(tmp_path)))
    assert len(steps["conditions"]) > 1
    assert all(one["commands"] for one in steps["conditions"])
