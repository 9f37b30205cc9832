"""Parts of a bundle that a forger may replace, besides runs: found without executing, or named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from labs.catalog import find
from labs.launch.wanted import Wanted
from labs.publish.crate import KERNELS
from labs.read.display.rich_output import Table
from labs.read.notebook_file import NotebookFile, notebook_file
from labs.read.runs import recorded
from labs.read.runs.compare import every_run
from labs.read.runs.run import Run
from labs.verify.executed_again import Cells
from labs.verify.notebook_claims import of_parameters, of_tables
from labs.verify.rerun import BEYOND, IDENTICAL, NotRepeated, Repeated, judged
from labs.verify.verified import EXIT_CODES, NOT_ALL_COMPARED, Verified
from labs.verify.verify import subject_of, verify
from tests.hostile_bundles import FORGED, NOTEBOOK, files_of, forged, measured

PART = {"printed figure": "outputs of book.ipynb", "commit": "code.json"}
PART["lock"] = "environment/requirements.lock"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("good"))


@pytest.fixture(autouse=True)
def every_run_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeat(
        runs: Sequence[Run], into: Path, wanted: Wanted
    ) -> tuple[list[Repeated], list[NotRepeated]]:
        return [judged(find(run.lab), run, run) for run in runs], []

    monkeypatch.setattr("labs.verify.verify.repeat", repeat)


def executed(monkeypatch: pytest.MonkeyPatch, what: Path, **cells_of_book: Any) -> Verified:
    """A bundle verified with --execute, if that finds no other words."""
    cells = Cells("book", 5, (), **cells_of_book)
    monkeypatch.setattr("labs.verify.verify.execute_again", lambda *_, **__: cells)
    return verify(what, notebooks=True)


def test_verify_is_identical_only_if_all_was_compared(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = executed(monkeypatch, good)
    assert (verified.grade, verified.exit_code, verified.not_compared) == (IDENTICAL, 0, [])
    image = executed(monkeypatch, good, not_compared={2: ("image/png",)})
    audit = executed(monkeypatch, good, of_machine=(2,))
    for verified in (verify(good), image, audit):
        assert (verified.grade, verified.exit_code) == ("identical in part", NOT_ALL_COMPARED)
        assert len(verified.not_compared) == len(verified.as_json()["not_compared"]) == 1
        assert verified.not_compared[0].part in list(verified.lines())[-1]


def test_verify_grades_what_could_not_be_repeated_in_part(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder of runs, too: a kernel that is not built leaves runs out."""
    runs = subject_of(good).runs[0].path.parent

    def repeat(runs: Sequence[Run], into: Path, wanted: Wanted) -> Any:
        return [judged(find(runs[0].lab), runs[0], runs[0])], [NotRepeated(runs[1], "no kernel")]

    assert verify(runs).exit_code == 0
    monkeypatch.setattr("labs.verify.verify.repeat", repeat)
    verified = verify(runs)
    assert (verified.grade, verified.exit_code) == ("identical in part", NOT_ALL_COMPARED)


@pytest.mark.parametrize("name", FORGED)
def test_verify_finds_or_names_what_was_forged(name: str, good: Path, tmp_path: Path) -> None:
    code, texts = FORGED[name]
    verified = verify(forged(good, tmp_path / "forged.zip", *texts))
    assert verified.exit_code == code
    assert (verified.grade == BEYOND) == (code == EXIT_CODES[BEYOND])
    assert code != EXIT_CODES[BEYOND] or any(objection.differs for objection in verified.objections)
    if name in PART:
        assert PART[name] in [objection.part for objection in verified.not_compared]


@pytest.mark.parametrize(
    "change",
    [
        lambda cells: cells[-1]["metadata"].update(tags=["injected-parameters"]),
        lambda cells: cells[2].update(outputs=cells[-1]["outputs"]),
        lambda cells: cells[2].update(source=[*cells[2]["source"], "\nprint(3.97)"]),
    ],
    ids=["a second cell", "an output", "code"],
)
def test_of_parameters_refuses_what_papermill_does_not_write(good: Path, change: Any) -> None:
    """Its cell is replaced at each execution, so nothing else finds what it shows."""
    (book,) = subject_of(good).notebooks
    content = json.loads(json.dumps(book.content))
    change(content["cells"])
    objections = [*of_parameters(notebook_file(content, book.path), subject_of(good).runs)]
    assert any(
        objection.differs and "injected-parameters" in objection.why for objection in objections
    )


def test_verify_execute_finds_a_printed_figure(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = Cells("book", 5, (5,), "39.68 -> 3.968 after mean")
    monkeypatch.setattr("labs.verify.verify.execute_again", lambda *_, **__: changed)
    assert verify(good, notebooks=True).exit_code == EXIT_CODES[BEYOND]


@pytest.fixture
def built(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a kernel of the digest that the runs name, and a bundle of its recipe."""
    kernel = subject_of(good).runs[0].inputs["kernel"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache/labs/kernels" / kernel["digest"]
    (folder / "patches").mkdir(parents=True)
    version, source = kernel["version"].partition("-")[0], kernel["version"]
    record = {"schema": 1, "version": version, "source": source, "hz": 250}
    (folder / "kernel.json").write_text(json.dumps({**record, "sha256": kernel["digest"]}))
    (folder / "config").write_text("CONFIG_HZ=250\n")
    (folder / "patches/hz.patch").write_text("+HZ\n")
    return measured(tmp_path / "built")


@pytest.mark.parametrize(
    ("file", "before", "after", "code"),
    [
        ("config", "250", "100", NOT_ALL_COMPARED),
        ("patches/hz.patch", "+HZ", "-HZ", NOT_ALL_COMPARED),
        ("kernel.json", '"hz": 250', '"hz": 100', NOT_ALL_COMPARED),
        ("kernel.json", '"version": "6.1', '"version": "9.9', EXIT_CODES[BEYOND]),
        ("kernel.json", '"sha256": "', '"sha256": "0', EXIT_CODES[BEYOND]),
    ],
)
def test_verify_compares_the_recipes_of_kernels(
    file: str,
    before: str,
    after: str,
    code: int,
    built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = next(
        file_name
        for file_name in files_of(built)
        if file_name.startswith(KERNELS) and file_name.endswith(file)
    )
    assert executed(monkeypatch, built).exit_code == 0
    verified = executed(monkeypatch, forged(built, tmp_path / "forged.zip", (name, before, after)))
    assert verified.exit_code == code
    assert name in [objection.part for objection in verified.objections]
    shutil.rmtree(tmp_path / "cache/labs/kernels")
    without = executed(monkeypatch, built)
    assert without.exit_code == NOT_ALL_COMPARED
    assert name in [objection.part for objection in without.not_compared]


def with_content(good: Path, change: Any) -> NotebookFile:
    """The notebook of a bundle with other cells."""
    content = json.loads(files_of(good)[NOTEBOOK])
    change(content["cells"])
    return notebook_file(content, Path("book.ipynb"))


def test_of_parameters_names_what_it_cannot_compare(good: Path) -> None:
    runs = subject_of(good).runs

    def differing(change: Any) -> list[bool]:
        return [objection.differs for objection in of_parameters(with_content(good, change), runs)]

    assert differing(lambda cells: None) == []
    assert differing(lambda cells: cells.pop(3)) == [False]  # the check
    assert differing(lambda cells: cells[4].update(source="REQUESTS = 10")) == [False]
    keyword = "p = labs.check('nagle', globals(), requests=400)"
    assert differing(lambda cells: cells[3].update(source=keyword)) == [False]
    assert differing(lambda cells: cells[1].update(source="REQUESTS = 5 + 5")) == [False]
    assert [
        objection.differs for objection in of_parameters(with_content(good, lambda cells: None), [])
    ] == [False]


@pytest.mark.parametrize(
    ("value", "differs"), [(39.678, 0), (39.68, 0), (20.0, 1), ("below 40", 0), (None, 0)]
)
def test_of_tables_compares_a_figure(good: Path, value: Any, differs: int) -> None:
    """The mean of `off` in the recorded runs is 39.678 ms."""
    runs = subject_of(good).runs
    table = Table([{"condition": "off", "mean_ms": value, "other": 3}, {"condition": "no-such"}])

    def change(cells: list[Any]) -> None:
        cells[4]["outputs"][0]["data"] = {"text/html": table._repr_html_()}

    objections = list(of_tables(with_content(good, change), runs, {}))
    assert [objection.differs for objection in objections] == [True] * differs


def test_of_tables_accepts_a_median_of_runs(good: Path) -> None:
    runs = every_run(recorded.folder() / "nagle-namespaces.tar.xz")
    values = [find("nagle").results(run).values["p50_ms"] for run in runs if run.condition == "off"]
    for value, differs in ((median(values), 0), (2 * max(values), 1)):
        table = Table([{"condition": "off", "p50_ms": value}])._repr_html_()
        shown = {"data": {"text/html": table}}
        book = with_content(good, lambda cells, shown=shown: cells[4].update(outputs=[shown]))
        assert len(list(of_tables(book, runs, {}))) == differs
