"""A student's session in JupyterLab itself, with recorded runs: open, Run All, twice; a misspelt
parameter and its correction; hidden solutions; a guess that stays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser

from tests.jupyterlab_session import NOTEBOOK, STARTS_S, STATE, Notebook, errors, outputs, server

FIGURE = "application/vnd.plotly.v1+json"
GUESS = "21.5"


def figures(cells: list[dict[str, Any]]) -> int:
    return sum(FIGURE in output.get("data", {}) for cell in cells for output in outputs(cell))


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """The first notebook with TESTBED = "recorded", open in JupyterLab."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "home").mkdir()
    book = nbformat.read(NOTEBOOK, as_version=4)
    parameters = next(cell for cell in book.cells if "parameters" in cell.metadata.get("tags", []))
    parameters.source = parameters.source.replace('TESTBED = "virtual"', 'TESTBED = "recorded"')
    nbformat.write(book, folder / NOTEBOOK.name)
    with server(folder) as address:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=STARTS_S * 1000)
        page.wait_for_function(f"() => ({STATE})().status === 'idle'", timeout=STARTS_S * 1000)
        try:
            yield Notebook(page)
        finally:
            page.close()


def test_session_in_jupyterlab(opened: Notebook) -> None:
    """One session, in the order of a lesson: each step depends on those before it."""
    opened.run_all()
    first = opened.cells()
    assert errors(first) == []
    assert figures(first) >= 3 and opened.charts() >= figures(first)
    solutions_are_hidden(opened)
    charts_follow_the_theme(opened)
    guess = a_guess_is_written(opened)
    opened.run_all()
    second = opened.cells()
    assert errors(second) == []
    assert figures(second) == figures(first) and opened.charts() >= figures(first)
    assert [cell["source"] for cell in second if cell["id"] == guess["id"]] == [guess["source"]]
    a_misspelt_parameter_is_refused_and_its_correction_accepted(opened)
    opened.run_all()
    assert errors(opened.cells()) == [] and figures(opened.cells()) == figures(first)


def solutions_are_hidden(opened: Notebook) -> None:
    """Neither the source nor the output of a solution can be seen, although it has run.

    JupyterLab shows hidden output again when a cell runs (`outputs_hidden`), so a solution is below
    a heading that is collapsed.
    """
    solutions = [cell for cell in opened.tagged("solution") if cell["cell_type"] == "code"]
    assert solutions and all(outputs(solution) for solution in solutions)
    for solution in solutions:
        widget = opened.widget(solution)
        assert not widget.locator(".cm-content").is_visible()
        assert not widget.locator(".jp-OutputArea-output").first.is_visible()
    headings = [cell for cell in opened.tagged("solution") if cell["cell_type"] == "markdown"]
    opened.widget(headings[0]).locator(".jp-showHiddenCellsButton").click()
    assert opened.widget(solutions[0]).locator(".jp-OutputArea-output").first.is_visible()


def charts_follow_the_theme(opened: Notebook) -> None:
    """White paper in the light theme, dark paper in the dark one."""
    for theme, inverted in (("JupyterLab Dark", True), ("JupyterLab Light", False)):
        opened.page.evaluate(
            "theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", theme
        )
        opened.page.wait_for_function(
            "inverted => [...document.querySelectorAll('.js-plotly-plot')].every("
            "it => getComputedStyle(it).filter.includes('invert') === inverted)",
            arg=inverted,
            timeout=10_000,
        )


def a_guess_is_written(opened: Notebook) -> dict[str, Any]:
    """Type a guess in the first cell for one; it is compared with what was measured."""
    guess = opened.tagged("guess")[0]
    source = re.sub(r"\bNone\b(?=\s*(#|$))", GUESS, guess["source"], count=1, flags=re.MULTILINE)
    assert GUESS in source
    opened.write(guess, source)
    opened.run(guess)
    return next(cell for cell in opened.cells() if cell["id"] == guess["id"])


def a_misspelt_parameter_is_refused_and_its_correction_accepted(opened: Notebook) -> None:
    """In one line, and in the same kernel."""
    kernel = opened.kernel()
    (parameters,), (check,) = opened.tagged("parameters"), opened.tagged("check")
    opened.write(parameters, parameters["source"].replace("RATE_MBIT ", "RATE_MBTI "))
    opened.run(parameters)
    (refused,) = [output for output in opened.run(check) if output["output_type"] == "error"]
    assert "did you mean RATE_MBIT?" in refused["evalue"]
    assert len("\n".join(refused["traceback"]).splitlines()) == 1
    opened.write(parameters, parameters["source"])
    opened.run(parameters)
    assert [output for output in opened.run(check) if output["output_type"] == "error"] == []
    assert opened.kernel() == kernel
