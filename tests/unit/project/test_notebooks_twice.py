"""Every notebook in one kernel: Run All twice, then with a misspelt name, then corrected.

The runs are the recorded ones, chosen the way papermill and `labs publish` choose them: by a cell
of papermill's after the parameters cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LACKING = [name for name in ("papermill", "nbclient", "ipykernel") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")
FIGURE = "application/vnd.plotly.v1+json"


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def client(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A notebook with its kernel, which reads the recorded runs."""
    from nbclient import NotebookClient
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    book = parameterize_notebook(load_notebook_node(str(request.param)), {"TESTBED": "recorded"})
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

    run(client)
    assert errors(client) == []
    assert figures(client) == drawn

    parameters = client.nb.cells[tagged(client, "parameters")]
    right = parameters.source
    check = tagged(client, "check") + 1
    parameters.source = re.sub(r"^SEED", "SEDE", right, flags=re.MULTILINE)
    assert parameters.source != right
    run(client, check)
    assert errors(client) == [
        "BadInput: SEDE is not a parameter; did you mean SEED? "
        "Use lower case for names of your own."
    ]

    parameters.source = right
    run(client, check)
    assert errors(client) == []
