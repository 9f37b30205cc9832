"""The recipes of docs/recipes.md give the figures that the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from labs import catalog
from labs.cli.__main__ import main

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(
    r"labs run docs/recipes/(\w+)\.py\n.*?^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
SHOWN = dict(BLOCK.findall((DOCS / "recipes.md").read_text("utf-8")))
BY_THE_RUN = ("notes", "rtt_ms", "rate_mbit")


@pytest.mark.parametrize("name", SHOWN)
def test_recipe_has_the_figures_of_the_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalog, "_own", {})  # other tests know no such lab
    recipe = DOCS / "recipes" / f"{name}.py"
    assert main(["run", str(recipe), "--into", str(tmp_path / "runs"), "--json"]) == 0
    found = {one["condition"]: one for one in json.loads(capsys.readouterr().out)["results"]}
    head, *rows = (line.split() for line in SHOWN[name].splitlines())
    assert list(found) == [row[0] for row in rows]
    for row in rows:
        for column, value in zip(head[1:], row[1:], strict=False):
            if column not in BY_THE_RUN:
                assert found[row[0]][column] == pytest.approx(float(value), rel=0.1), column
        assert found[row[0]]["link"]["ok"]
