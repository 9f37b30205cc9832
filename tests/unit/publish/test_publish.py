"""A notebook in, one page out: charts alive, nothing fetched, one line where a cell stops."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from labs.cli.command import prepare
from labs.errors import BadInput, Damaged, LabError, ResultsDiffer, RunFailed
from labs.publish.execute import execute, open_notebook
from labs.publish.html import embed_charts, page
from labs.publish.page_parameters import checked_lab, declared, settle
from labs.read.notebook_file import FIGURE, NotebookFile, notebook_file, read_notebook

ROOT = Path(__file__).parents[3]
PARAMETERS = 'RATE_MBIT = 10  # rate\nKERNEL = "6.1"  # version\nCAPTURE = False  # packets'


def notebook(*cells: str, check: bool = False) -> Any:
    first = new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})
    second = new_code_cell("RATE_MBIT", metadata={"tags": ["check"] if check else []})
    rest = [
        new_markdown_cell(it[3:]) if it.startswith("md:") else new_code_cell(it) for it in cells
    ]
    return new_notebook(cells=[first, second, *rest])


def as_file(book: Any) -> NotebookFile:
    return notebook_file(book, Path("book.ipynb"))


def run(folder: Path, book: Any, *words: str) -> int:
    path = folder / "book.ipynb"
    nbformat.write(book, path)
    return prepare("publish", [str(path), "--out", str(folder / "book.html"), *words]).run()


class Loads(HTMLParser):
    """What a browser would fetch for a page: the addresses of its scripts, styles and images."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in ("script", "img", "iframe", "link"):
            self.addresses += [it for it in (named.get("src"), named.get("href")) if it]


def test_page_draws_charts_with_one_library_and_no_network(tmp_path: Path) -> None:
    draw = "import plotly.graph_objects as go\ngo.Figure(go.Bar(y=[1, 2]))"
    book = notebook("md:# A title\n\n## One\n\n## Two\n\n## Three", draw, draw, "RATE_MBIT * 2")
    assert run(tmp_path, book, "--set", "RATE_MBIT=21") == 0
    page = (tmp_path / "book.html").read_text(encoding="utf-8")

    loads = Loads()
    loads.feed(page)
    assert [it for it in loads.addresses if not it.startswith("data:")] == []
    assert "@import" not in page.split("<main>")[0].split("<script>")[0]
    assert len(re.findall(r"\* plotly\.js v[0-9]", page)) == 1
    assert re.findall(r'<div id="(chart-\d)"', page) == ["chart-1", "chart-2"]
    assert page.count('<script type="application/json">') == 2
    assert "<title>A title</title>" in page
    assert '<a href="#Two">Two</a>' in page
    assert "<pre>42</pre>" in page


def test_page_without_charts_is_small_and_repeats_to_the_byte(tmp_path: Path) -> None:
    book = notebook("print('a < b')")
    run(tmp_path, book)
    first = (tmp_path / "book.html").read_bytes()
    run(tmp_path, book)
    assert (tmp_path / "book.html").read_bytes() == first
    assert b"a &lt; b" in first
    assert len(first) < 50_000


def test_align_tables_puts_words_left_and_numbers_right(tmp_path: Path) -> None:
    run(tmp_path, notebook("import pandas\npandas.DataFrame({'name': ['a b'], 'rate': [1.5]})"))
    page = (tmp_path / "book.html").read_text(encoding="utf-8")
    assert '<th class="words" scope="col">name</th>' in page
    assert '<td class="words">a b</td>' in page
    assert '<th scope="col">rate</th>' in page
    assert '<th scope="row">0</th>' in page
    assert "<td>1.5</td>" in page


def test_page_folds_the_answer_of_a_solution(tmp_path: Path) -> None:
    book = notebook("print('seen at once')", "print('looked up')")
    book.cells[3].metadata["tags"] = ["solution"]
    assert run(tmp_path, book) == 0
    page = (tmp_path / "book.html").read_text(encoding="utf-8")
    before, folded = page.split("<summary>answer</summary>")
    assert "<pre>seen at once" in before and "<pre>looked up" in folded.split("</details>")[0]


def test_settle_gives_values_the_type_of_the_default() -> None:
    settled = settle(["RATE_MBIT=0.5", "KERNEL=6.10", "CAPTURE=true"], as_file(notebook()))
    assert settled == {"RATE_MBIT": 0.5, "KERNEL": "6.10", "CAPTURE": True}
    assert declared(as_file(notebook())) == {"RATE_MBIT": 10, "KERNEL": "6.1", "CAPTURE": False}


@pytest.mark.parametrize(
    ("word", "words"),
    [("RATE_MBTI=10", "RATE_MBIT"), ("RATE_MBIT", "NAME=VALUE"), ("=3", "NAME=VALUE")],
)
def test_settle_refuses_a_word_before_anything_runs(tmp_path: Path, word: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        run(tmp_path, notebook("open('started', 'w')"), "--set", word)
    assert sorted(it.name for it in tmp_path.iterdir()) == ["book.ipynb"]


def test_settle_says_that_a_notebook_has_no_parameters() -> None:
    book = as_file(new_notebook(cells=[new_code_cell("1")]))
    with pytest.raises(BadInput, match="has no parameters"):
        settle(["RATE_MBIT=3"], book)


HEAVY = ("papermill", "nbformat", "jupyter_client", "pandas", "plotly")
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("RATE_MBTI=10", "did you mean RATE_MBIT?"),
        ("NOTHING_LIKE_IT=1", "is not a parameter"),
        ("RATE_MBIT=-1", "0.1 to 100000"),
        ("ONLY=defualt", "did you mean default?"),
    ],
)
def test_publish_refuses_what_the_check_would_before_it_loads_anything(
    tmp_path: Path, word: str, words: str
) -> None:
    """So the refusal takes as long as Python and argparse: nothing slow is imported before it."""
    page = tmp_path / "page.html"
    notebook = ROOT / "notebooks" / "00-start-here.ipynb"
    script = (
        "import sys\nfrom labs.cli.__main__ import main\n"
        f"code = main(['publish', {str(notebook)!r}, '--out', {str(page)!r}, '--set', {word!r}])\n"
        f"print(code, [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "2 []\n"
    assert words in done.stderr and done.stderr.count("\n") == 1
    assert not page.exists()


def test_checked_lab_is_the_one_that_the_notebook_checks() -> None:
    assert checked_lab(as_file(notebook())) is None
    book = notebook(check=True)
    book.cells[1].source = 'import labs\n\np = labs.check("./mylab.py", globals())'
    assert checked_lab(as_file(book)) == "./mylab.py"
    book.cells[1].source = "labs.check("
    assert checked_lab(as_file(book)) is None


def test_settle_leaves_an_unlisted_name_to_the_notebook_s_check() -> None:
    assert settle(["LOSS_PCT=1"], as_file(notebook(check=True))) == {"LOSS_PCT": 1}


@pytest.mark.parametrize(
    ("cell", "kind", "line"),
    [
        ("1 / 0", RunFailed, r"cell 3 stopped with ZeroDivisionError: division by zero; run it"),
        (
            "import labs.errors\nraise labs.errors.ResultsDiffer('moved: a by 2 %')",
            ResultsDiffer,
            r"^moved: a by 2 %$",
        ),
    ],
)
def test_publish_reports_a_failed_cell_in_one_line_and_leaves_no_page(
    tmp_path: Path, cell: str, kind: type[LabError], line: str
) -> None:
    with pytest.raises(LabError, match=line) as stopped:
        run(tmp_path, notebook(cell))
    assert type(stopped.value) is kind
    assert "\n" not in str(stopped.value)
    assert sorted(it.name for it in tmp_path.iterdir()) == ["book.ipynb"]


BAR = """\
from labs.launch.progress import Bar
from labs.launch.wanted import Line, Performed
with Bar("nagle", 1) as bar:
    for event in (Line("1 s"), Performed()):
        bar.tell("off", event)
print("done")"""


def test_execute_leaves_nothing_of_a_progress_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bar is shown only if runs are performed, and notebooks with equal results are equal."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = open_notebook(as_file(notebook(BAR)))
    out = tmp_path / "out.ipynb"
    for done in (
        execute(book, tmp_path / "book.ipynb", {}, progress=False, out=out),
        nbformat.read(out, as_version=4),
    ):
        (output,) = done.cells[-1].outputs
        assert output.text == "done\n"


def test_publish_refuses_a_missing_attachment_before_it_executes(tmp_path: Path) -> None:
    executes = f"open({str(tmp_path / 'executed')!r}, 'w')"
    text = "md:`![x](attachment:as-code.png)` ![x](attachment:nope.png)"
    with pytest.raises(RunFailed, match="missing attachment") as caught:
        run(tmp_path, notebook(executes, text))
    assert "\n" not in str(caught.value)
    assert [it.name for it in tmp_path.iterdir()] == ["book.ipynb"]


@pytest.mark.parametrize(
    "data",
    [
        {"application/vnd.jupyter.widget-view+json": "x", "text/plain": "y"},
        {"text/markdown": "![x](attachment:nope.png)"},
    ],
    ids=["widget", "attachment"],
)
def test_page_refuses_an_output_that_cannot_be_shown(data: dict[str, str]) -> None:
    output = new_output("display_data", data=data)
    with pytest.raises(RunFailed) as caught:
        page(new_notebook(cells=[new_code_cell("1", outputs=[output])]), "a page")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"no json",
        b"{}",
        b"[]",
        b"3",
        b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
        b'{"cells": [3], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
        b'{"cells": [], "nbformat": "4", "nbformat_minor": 5, "metadata": {}}',
        b'{"cells": [], "nbformat": 4.0, "nbformat_minor": 5, "metadata": {}}',
        b'{"cells": [], "nbformat": 1e300, "nbformat_minor": 5, "metadata": {}}',
        b'{"cells": [], "nbformat": true, "nbformat_minor": 5, "metadata": {}}',
        b'{"worksheets": 3, "nbformat": 3, "nbformat_minor": 0, "metadata": {}}',
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"metadata": ' * 900,
    ],
)
def test_read_notebook_refuses_other_content(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.ipynb").write_bytes(content)
    with pytest.raises(Damaged) as caught:
        open_notebook(read_notebook(tmp_path / "a.ipynb"))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_open_notebook_leaves_out_what_papermill_noted() -> None:
    """papermill would go on from there, and end with an AttributeError for a text."""
    book = notebook()
    book.metadata["papermill"] = book.cells[0].metadata["papermill"] = "x"
    opened = open_notebook(as_file(book))
    assert "papermill" not in opened.metadata | opened.cells[0].metadata


@pytest.mark.parametrize("figure", [5, {}, {"data": 5, "layout": {}}])
def test_embed_charts_refuses_an_output_that_is_no_figure(figure: Any) -> None:
    book = notebook()
    book.cells[1].outputs = [new_output("display_data", data={FIGURE: figure})]
    with pytest.raises(RunFailed, match=r"cell 2 .* cannot be drawn"):
        embed_charts(book)


def test_declared_skips_what_is_computed_and_refuses_other_languages() -> None:
    book = notebook()
    cell = next(cell for cell in book.cells if "parameters" in cell.metadata.get("tags", []))
    cell.source += "\nTODAY = date.today()\nPAIR = (1, 2)\n"
    parameters = declared(as_file(book))
    assert (parameters["TODAY"], parameters["PAIR"], parameters["KERNEL"]) == (None, None, "6.1")
    for source in ("%matplotlib inline", "X = 1\0", "X = " + "-" * 100_000 + "1"):
        cell.source = source
        with pytest.raises(BadInput, match="a cell cannot be read"):
            declared(as_file(book))


def test_publish_dry_run_says_what_would_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, notebook("1 / 0"), "--set", "RATE_MBIT=3", "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == {"RATE_MBIT": 3}
    assert not (tmp_path / "book.html").exists()


def test_publish_refuses_another_ending_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="must end in"):
        run(tmp_path, notebook("1 / 0"), "--out", str(tmp_path / "page.txt"))
