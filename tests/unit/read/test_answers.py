"""The answers that ship with the recorded runs: equal to what is computed, and else not used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs import catalog
from labs.drive.record import kept_answers
from labs.read import answers, run_results
from labs.read.answers import FILE, Recorded, computed, id_of, packed, read
from labs.read.run_results import code_of
from labs.read.runs import recorded
from labs.read.runs.kept_content import SUMS
from labs.read.runs.run import open_run
from tests.recorded_answers import WRITE, asked_of, computed_answer, equal, runs_of, stale

EACH = 80
"""One in so many runs is computed again here; `make answers` computes all."""
FEWEST_FRESH = 0.75
"""In continuous integration. With fewer, `labs claims` takes more than twice its time on a new
machine, where the cache is empty."""
QUESTION, CODE = '["nagle", "d1"]', {"nagle": "c1"}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of recorded data with two answers, which is that of the package."""
    folder = tmp_path / "data"
    folder.mkdir()
    _write(folder, packed(CODE, {QUESTION: "40.061", "other": "3.21"}))
    monkeypatch.setattr(answers, "FOLDERS", (folder,))
    yield folder
    _forget()


def _write(folder: Path, content: bytes) -> None:
    (folder / FILE).write_bytes(content)
    recorded.write_sums(folder)
    _forget()


def _forget() -> None:
    answers._recorded.cache_clear()
    kept_answers._known.cache_clear()


def _answer(question: str = QUESTION, code: str = "c1") -> str | None:
    return answers.recorded("nagle", code, question)


@pytest.mark.parametrize("name", catalog.LABS)
def test_recorded_answers_are_those_that_are_computed(name: str) -> None:
    """Whether or not the code has changed since: results of a recorded run do not change by
    themselves. If they were meant to, write them again and look at the difference."""
    held = read(recorded.folder()).answers
    for folder in runs_of(name)[::EACH]:
        run = open_run(folder)
        text = computed_answer(run)
        assert equal(held.get(id_of(asked_of(run))), text), (
            f"the results of {folder.name} are not those in data/{FILE}. If that is meant: {WRITE}"
        )


def test_few_recorded_answers_are_stale() -> None:
    """Those of labs whose code has changed are computed, which takes time and breaks nothing. A
    change may leave them so; continuous integration allows it for a quarter of them."""
    runs = {lab: len(runs_of(lab)) for lab in catalog.LABS}
    fresh = sum(count for lab, count in runs.items() if lab not in stale())
    told = f"{fresh} of {sum(runs.values())} recorded answers are of the present code: {WRITE}"
    if fresh < sum(runs.values()) and "CI" not in os.environ:
        pytest.skip(told)
    assert fresh >= FEWEST_FRESH * sum(runs.values()), told


def test_results_of_a_recorded_run_are_read_from_the_file(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the code of today, whatever the file of the project has."""
    lab = catalog.find("nagle")
    run = open_run(runs_of("nagle")[0])
    with computed():
        expected = lab._computation(run).results()
        notes, values = expected.notes, dict(expected.values)
    _write(data, packed({"nagle": code_of("nagle")}, {asked_of(run): computed_answer(run)}))
    monkeypatch.setattr(run_results.Computation, "value", lambda *_: pytest.fail("computed"))
    results = lab.results(run)
    lab.forget(run)
    assert dict(results.values) == values and results.notes == notes


def test_answer_is_used_with_the_same_code_for_the_same_question(data: Path) -> None:
    assert _answer() == "40.061"
    assert _answer(code="c2") is None
    assert _answer('["nagle", "d2"]') is None
    assert answers.recorded("buffers", "c1", QUESTION) is None
    with computed():
        assert _answer() is None


@pytest.mark.parametrize("at", [0, 7, 60, -1])
def test_file_with_a_changed_byte_is_not_used(
    data: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    content = bytearray((data / FILE).read_bytes())
    content[at] ^= 1
    (data / FILE).write_bytes(content)
    _forget()
    assert _answer() is None and _answer() is None
    assert caplog.text.count(FILE) == 1


def test_file_that_the_sums_do_not_name_is_not_used(data: Path) -> None:
    (data / FILE).write_bytes(packed(CODE, {QUESTION: "3.21"}))
    assert read(data) == Recorded({}, {})
    (data / SUMS).write_text("")
    assert read(data) == Recorded({}, {})
    (data / SUMS).unlink()
    assert answers._recorded() == Recorded({}, {})


def test_missing_file_and_missing_line(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    _write(data, packed(CODE, {"other": "3.21"}))
    assert (_answer(), _answer("other")) == (None, "3.21")
    (data / FILE).unlink()
    _forget()
    assert _answer("other") is None and FILE in caplog.text


@pytest.mark.parametrize("content", [b"", b"xz", packed({}, {})[:-9]])
def test_sealed_file_that_is_none_is_not_used(data: Path, content: bytes) -> None:
    _write(data, content)
    assert _answer() is None


def test_cache_that_cannot_be_written_and_damaged_file(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the answer is computed each time; nothing else answers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("where the folder would be")
    shutil.copy(data / SUMS, data / FILE)
    _forget()
    assert _answer() is None
    for text in ("40.061", "40.062"):
        _forget()
        assert answers.kept(QUESTION, lambda text=text: text, "0" * 32) == text  # type: ignore[misc]


def test_answer_of_another_run_differs_from_what_is_computed(data: Path) -> None:
    """Somebody who also writes the sums again is found out by the comparison with all runs."""
    first, second = (open_run(folder) for folder in runs_of("nagle")[:2])
    swapped = {asked_of(first): computed_answer(second)}
    _write(data, packed(CODE, swapped))
    held = read(data).answers[id_of(asked_of(first))]
    assert not equal(held, computed_answer(first))
