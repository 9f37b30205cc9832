"""Every notebook in one kernel: Run All twice, then with a misspelt name, then corrected. What it
shows has the conditions that its text names.

The runs are the recorded ones, chosen the way papermill and `labs publish` choose them: by a cell
of papermill's after the parameters cell. A notebook without TESTBED shows what comes with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from labs.publish.page_parameters import declared
from labs.read.notebook_file import read_notebook
from tests.shown_conditions import STUDIES, not_as_named, not_shown, repeated

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LACKING = [name for name in ("papermill", "nbclient", "ipykernel") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")
TESTBED = "TESTBED"
FIGURE = "application/vnd.plotly.v1+json"


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def client(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A notebook with its kernel, which reads the recorded runs."""
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    book = load_notebook_node(str(request.param))
    if TESTBED in declared(read_notebook(request.param)):
        book = parameterize_notebook(book, {TESTBED: "recorded"})
    book.cells.append(new_code_cell(STUDIES))
    client = NotebookClient(
        book, allow_errors=True, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    )
    with client.setup_kernel():
        yield client


def run(client: Any, last: int | None = None) -> None:
    """Execute the cells in order, all or up to one, as Run All does."""
    for index, cell in enumerate(client.nb.cells[:last]):
        client.execute_cell(cell, index)


def errors(client: Any) -> list[str]:
    """The errors that are on the page now, each as the front end shows it."""
    return [
        "\n".join(output.traceback)
        for cell in client.nb.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ]


def figures(client: Any) -> int:
    return sum(
        FIGURE in output.get("data", {})
        for cell in client.nb.cells
        for output in cell.get("outputs", ())
    )


def tagged(client: Any, tag: str) -> int:
    (index,) = [
        index for index, cell in enumerate(client.nb.cells) if tag in cell.metadata.get("tags", [])
    ]
    return index


def test_notebook_runs_twice_then_misspelt_then_corrected(client: Any) -> None:
    run(client)
    assert errors(client) == []
    drawn = figures(client)
    assert drawn >= 1
    assert not_shown(client.nb) == []
    assert not_as_named(client.nb) == []
    assert repeated(client.nb) == []

    run(client)
    assert errors(client) == []
    assert figures(client) == drawn

    parameters = client.nb.cells[tagged(client, "parameters")]
    right = parameters.source
    check = tagged(client, "check") + 1
    name = next(name for name in (TESTBED, "COLUMN", "CAPTURE") if f"{name} =" in right)
    misspelt = name[:2] + name[3] + name[2] + name[4:]
    parameters.source = re.sub(rf"^{name}", misspelt, right, flags=re.MULTILINE)
    assert parameters.source != right
    run(client, check)
    assert errors(client) == [
        f"BadInput: {misspelt} is not a parameter; did you mean {name}? "
        "Use lower case for names of your own."
    ]

    parameters.source = right
    run(client, check)
    assert errors(client) == []
