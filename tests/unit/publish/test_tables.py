"""Tables of a page: captions from the headings above them, and scopes."""

from __future__ import annotations

from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from labs.publish.output_html import complete_tables
from labs.read.display.rich_output import Table


def page_of(*cells: Any) -> list[str]:
    book = new_notebook(cells=list(cells))
    complete_tables(book)
    return [
        output["data"]["text/html"] for cell in book.cells for output in cell.get("outputs", [])
    ]


def shown(html: str) -> Any:
    output = new_output("execute_result", data={"text/html": html})
    return new_code_cell("table", outputs=[output])


def test_complete_tables_captions_are_the_headings_above() -> None:
    table = "<table><thead><tr><th>a</th></tr></thead><tbody><tr><th>0</th></tr></tbody></table>"
    first, second, third = page_of(
        shown(table),
        new_markdown_cell("# Title\n\ntext\n\n## *Link* check"),
        shown(table),
        new_markdown_cell("no heading"),
        shown(table),
    )
    assert "<caption>" not in first
    assert second == third and "<table><caption>Link check</caption>" in second
    assert '<th scope="col">a</th>' in second and '<th scope="row">0</th>' in second


def test_complete_tables_leaves_what_a_table_has() -> None:
    (table,) = page_of(
        new_markdown_cell("## Sizes"), shown(Table({"rtt_ms": range(25)})._repr_html_())
    )
    assert table.count("<caption>Sizes</caption>") == 2  # the rows that are folded too
    assert table.count('scope="col"') == 2 and "RTT (ms)" in table
