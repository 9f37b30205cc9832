"""The recipes of docs/recipes.md give the figures that the page shows."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from pathlib import Path

import pytest

from labs import catalog
from labs.cli.__main__ import main
from tests.kept_runs import kept

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "recipes.md").read_text("utf-8")
BLOCK = re.compile(
    r"labs run docs/recipes/(\w+)\.py(?: --only (\S+))?\n.*?^```text\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
SHOWN = {(name, only): table for name, only, table in BLOCK.findall(PAGE)}
BY_THE_RUN = ("notes", "rtt_ms", "rate_mbit")
# In virtual time a run repeats to the byte, but the kernel draws other numbers if the code of a run
# takes another moment. Where single draws or packets decide, goodput alone is compared.
BY_CHANCE = ("loss-single", "loss-runs", "reordered", "mobile-bbr", "bbr-cubic-small")
CHANCE = 0.7
NEAR = {"queue_p50_ms": 8.0, "lost_pct": 0.2, "share_pct": 5.0}
CODE = re.compile(r"^```python\n(def .*?)^```$", re.DOTALL | re.MULTILINE)
MOST_LINES = 10


@pytest.mark.parametrize(("name", "only"), SHOWN)
def test_recipe_has_the_figures_of_the_page(
    name: str,
    only: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(catalog, "_own", {})  # other tests know no such lab
    recipe = DOCS / "recipes" / f"{name}.py"
    monkeypatch.setenv("LABS_BOOT", "seccomp")  # faster, and the bytes are the same
    lab, runs = catalog.find(str(recipe)), str(tmp_path / "runs")
    words = ["--only", only, "--size", "full"] if only else []
    p = lab.Parameters(runs=runs, only=only, size="full") if only else lab.Parameters(runs=runs)
    with kept(lab, [p]):
        assert main(["run", str(recipe), *words, "--into", runs, "--json"]) == 0
    found = {one["condition"]: one for one in json.loads(capsys.readouterr().out)["results"]}
    head, *rows = (line.split() for line in SHOWN[name, only].splitlines())
    assert list(found) == [row[0] for row in rows]
    for row in rows:
        for column, value in zip(head[1:], row[1:], strict=False):
            if column not in BY_THE_RUN and (row[0] not in BY_CHANCE or "goodput" in column):
                share = CHANCE if row[0] in BY_CHANCE else 0.1
                near = pytest.approx(float(value), rel=share, abs=NEAR.get(column, 0))
                assert found[row[0]][column] == near, column
        assert found[row[0]]["link"]["ok"]


def test_page_shows_the_questions_as_they_are() -> None:
    path = DOCS / "recipes" / "questions.py"
    spec = importlib.util.spec_from_file_location("questions", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sources = [inspect.getsource(question) for question in module.QUESTIONS]
    assert CODE.findall(PAGE) == sources
    assert max(len(source.splitlines()) for source in sources) <= MOST_LINES
    asked = [only for name, only in SHOWN if name == "questions"]
    assert asked == [",".join(question()) for question in module.QUESTIONS]
