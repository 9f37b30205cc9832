"""Runs performed again from their records: identical, or contradicted; a bundle of a notebook."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from labs.catalog import find
from labs.drive.record.seal import key, pretty
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.publish import bundle
from labs.read.notebook_file import read_notebook
from labs.read.runs.compare import every_run
from labs.verify.rerun import BEYOND, IDENTICAL
from labs.verify.verified import Verified
from labs.verify.verify import verify
from tests import kept_runs
from tests.run_folders import reseal

LAB = "nagle"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    p = Nagle(runs=str(folder), only="off", requests=50, concurrency=5, delay_ms=10)
    kept_runs.make(find(LAB), p)
    return folder


def forged(runs: Path, into: Path, **inputs: Any) -> Path:
    """The run with other inputs in its record, under their key and sealed again."""
    (run,) = every_run(runs)
    record = json.loads((run.path / "run.json").read_text())
    record["inputs"] |= inputs
    record["key"] = key(record["inputs"])
    folder = into / f"{run.lab}-{run.condition}-{record['key'][:12]}"
    shutil.copytree(run.path, folder)
    (folder / "run.json").write_bytes(pretty(record))
    reseal(folder)
    return into


def causes(verified: Verified) -> list[str]:
    return [cause.partition(":")[0] for cause in verified.causes]


def test_a_run_repeats_to_the_byte(runs: Path) -> None:
    verified = verify(runs)
    assert (verified.grade, len(verified.repeated), verified.lacking) == (IDENTICAL, 1, ())
    assert not verified.inputs


def test_a_changed_parameter_is_found(runs: Path, tmp_path: Path) -> None:
    (run,) = every_run(runs)
    condition = dict(run.inputs["condition"])
    condition["link"] = {**condition["link"], "delay_ms": 30}
    verified = verify(forged(runs, tmp_path, condition=condition))
    assert verified.grade == BEYOND and causes(verified) == ["parameter"]
    assert any(change.name == "p50_ms" for change in verified.repeated[0].pair.results)


def test_another_patch_version_of_the_kernel_is_named(runs: Path, tmp_path: Path) -> None:
    kernel = {"version": "6.1.1", "digest": "ab" * 32}
    verified = verify(forged(runs, tmp_path, kernel=kernel))
    assert verified.grade == IDENTICAL  # the record was made by the kernel that is built here
    assert any(name.startswith("kernel.version 6.1.1 -> 6.1.") for name in verified.inputs)


def test_output_that_was_changed_and_sealed_again_is_found(runs: Path, tmp_path: Path) -> None:
    folder = next(forged(runs, tmp_path).iterdir())
    counters = folder / "server/nstat-after.txt"
    changed = re.sub(rb"(TcpOutSegs +)(\d+)", rb"\g<1>1\2", counters.read_bytes())
    counters.write_bytes(changed)
    reseal(folder)
    verified = verify(tmp_path)
    assert (verified.grade, verified.repeated[0].pair.files) == (
        BEYOND,
        ("server/nstat-after.txt",),
    )
    assert causes(verified) == ["the inputs are equal"]


def test_a_series_that_is_not_built_is_told(runs: Path, tmp_path: Path) -> None:
    verified = verify(forged(runs, tmp_path, kernel={"version": "5.4.1", "digest": "ab" * 32}))
    assert verified.grade == "not repeated" and "5.4" in verified.lacking[0].why


def test_a_bundle_of_an_executed_notebook_is_identical(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs that the notebook opens are in the bundle, and the notebook is executed on them."""
    values = {"ONLY": "off", "REQUESTS": 50, "CONCURRENCY": 5, "DELAY_MS": 10, "RUNS": "other"}
    parameters = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    look = "study = labs.study(p)\nstudy.results()[['condition', 'p50_ms']]"
    cells = [
        new_code_cell(parameters, metadata={"tags": ["parameters"]}),
        new_code_cell(
            'import labs\np = labs.check("nagle", globals())', metadata={"tags": ["check"]}
        ),
        new_code_cell(look),
    ]
    book = tmp_path / "book.ipynb"
    nbformat.write(new_notebook(cells=cells), book)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out.zip"
    given = {"RUNS": str(runs)}
    done = bundle.write(out, [(read_notebook(book), given)], [], tell=lambda line: None)
    assert (done.notebooks, done.runs) == (1, 1)
    verified = verify(out, notebooks=True)
    assert verified.grade == IDENTICAL and [notebook.equal for notebook in verified.notebooks] == [
        True
    ]
    assert [run.digest for run in verified.subject.runs] == [run.digest for run in every_run(runs)]
