"""A lesson done by a student in JupyterLab, from the student's copy of the first notebook to its
grade. LABS_SCREENSHOTS names a folder that gets a picture of each step."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from labs.cli.__main__ import main
from tests.jupyterlab_session import NOTEBOOK, STARTS_S, STATE, Notebook, errors, outputs, server

pytestmark = [
    pytest.mark.skipif(
        "LABS_SCREENSHOTS" not in os.environ,
        reason="a lesson takes minutes: LABS_SCREENSHOTS=FOLDER does it and keeps its pictures",
    ),
    pytest.mark.timeout(1800),
]

GUESSES = {"guess_default_mib_s": "30", "guess_both_mib_s": "114"}
FIRST = {"bdp_mib": "2.75", "limit": '"link"', "longest_rtt_ms": "35"}
"""The answers of a student who takes MB for MiB, and the whole send buffer for payload."""
RIGHT = {"bdp_mib": "22e-3 * 1e9 / 8 / 2**20", "limit": '"link"', "longest_rtt_ms": "24"}


@dataclass
class Lesson(Notebook):
    """The open notebook, and the folder in which JupyterLab saves it."""

    folder: Path


@pytest.fixture(scope="module")
def lesson(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lesson]:
    """The student's copy, open in JupyterLab."""
    folder = tmp_path_factory.mktemp("lesson")
    (folder / "home").mkdir()
    assert main(["student", str(NOTEBOOK), "--into", str(folder), "--recorded"]) == 0
    with server(folder) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(STARTS_S * 1000)
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        page.wait_for_function(f"() => ({STATE})().status === 'idle'")
        try:
            yield Lesson(page, folder)
        finally:
            page.close()


def photographed(lesson: Lesson, name: str, cell: dict[str, Any] | None = None) -> None:
    folder = os.environ.get("LABS_SCREENSHOTS")
    if folder:
        if cell is not None:
            lesson.widget(cell).scroll_into_view_if_needed()
            lesson.page.wait_for_timeout(500)
        lesson.page.screenshot(path=Path(folder) / f"{name}.png")


def filled(source: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        source, count = re.subn(rf"^{name} = \S+", f"{name} = {value}", source, flags=re.MULTILINE)
        assert count == 1
    return source


def cell_of(lesson: Lesson, name: str) -> dict[str, Any]:
    return next(cell for cell in lesson.cells() if cell["id"] == name)


def text_of(cell: dict[str, Any]) -> str:
    return "".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs(cell))


def test_lesson_from_opening_to_grade(lesson: Lesson, capsys: pytest.CaptureFixture[str]) -> None:
    """One lesson, in the order of docs/lessons.md: each step depends on those before it."""
    photographed(lesson, "1-opened")
    assert lesson.tagged("solution") == []
    guess = lesson.tagged("guess")[0]
    lesson.write(guess, filled(guess["source"], GUESSES))
    photographed(lesson, "2-guesses", guess)
    lesson.run_all()
    assert errors(lesson.cells()) == []
    photographed(lesson, "3-compared", cell_of(lesson, "guesses"))
    assert "30" in text_of(cell_of(lesson, "guesses"))
    steps_are_played(lesson)
    (answers,) = lesson.tagged("answer")
    assert text_of(cell_of(lesson, "grade")).count("no answer yet") == 3
    lesson.write(answers, filled(answers["source"], FIRST))
    lesson.run(answers)
    lesson.run(cell_of(lesson, "grade"))
    photographed(lesson, "6-hints", cell_of(lesson, "grade"))
    assert text_of(cell_of(lesson, "grade")).count("wrong") == 2
    answers = cell_of(lesson, answers["id"])
    lesson.write(answers, filled(answers["source"], RIGHT))
    lesson.run(answers)
    lesson.run(cell_of(lesson, "grade"))
    photographed(lesson, "7-right", cell_of(lesson, "grade"))
    assert "wrong" not in text_of(cell_of(lesson, "grade"))
    lesson.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    handed_in = lesson.folder / NOTEBOOK.name
    assert main(["grade", str(handed_in), "--json"]) == 0
    (sheet,) = json.loads(capsys.readouterr().out)
    assert (sheet["points"], sheet["of"]) == (3, 3)
    assert sheet["guesses"] == {name: float(value) for name, value in GUESSES.items()}


def steps_are_played(lesson: Lesson) -> None:
    """The chart in steps: *Play* shows an early step, *Stop* stays there, and *Play* goes on to the
    last."""
    cell = cell_of(lesson, "steps-default")
    chart = lesson.widget(cell).locator(".js-plotly-plot")
    shown = "it => it.data[3].y.filter(one => one !== null).length"
    every = chart.evaluate(shown)
    photographed(lesson, "4-last-step", cell)

    def play(until: str) -> None:
        chart.locator(".updatemenu-button", has_text="Play").click()
        lesson.page.wait_for_function(
            f"it => ({shown})(it) {until} {every}", arg=chart.element_handle()
        )

    play("<")
    chart.locator(".updatemenu-button", has_text="Stop").click()
    photographed(lesson, "5-stopped", cell)
    assert chart.evaluate(shown) < every
    play("===")
