"""Markdown files as pages: anchors, links that lead somewhere, nothing that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labs.publish.output_html import plain_text
from labs.publish.site_documents import document, document_pages
from labs.publish.site_page import Place

ROOT = Path(__file__).parents[3]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "model.md").write_text("# A model\n")
    (tmp_path / "README.md").write_text("# The lab\n")
    (tmp_path / "docs" / "a.png").write_bytes(PNG)
    return tmp_path


def html(project: Path, text: str) -> str:
    (project / "docs" / "page.md").write_text(text)
    addresses = {**document_pages(project), "notebooks/n.ipynb": "notebooks/n.html"}
    return document(project, "docs/page.md", Place("docs/page.html", frozenset()), addresses)[1]


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("model.md", "../docs/model.html"),
        ("model.md#a-part", "../docs/model.html#a-part"),
        ("../README.md", "../docs/readme.html"),
        ("../notebooks/n.ipynb", "../notebooks/n.html"),
        ("#below", "#below"),
        ("https://example.org/x", "https://example.org/x"),
    ],
)
def test_document_links_to_pages_of_the_site(project: Path, link: str, address: str) -> None:
    assert f'<a href="{address}">words</a>' in html(project, f"# T\n\n[words]({link})\n")


@pytest.mark.parametrize("link", ["../labs/errors.py", "../../etc/passwd", "javascript:alert(1)"])
def test_document_shows_other_links_as_text(project: Path, link: str) -> None:
    page = html(project, f"# T\n\n[words]({link})\n")
    assert "words" in page and "<a href" not in page


def test_document_has_anchors_as_links_write_them(project: Path) -> None:
    assert '<h2 id="the-pattern-of-a-notebook">' in html(
        project, "# T\n\n## The pattern of a notebook\n"
    )


def test_document_includes_images_of_the_project_alone(project: Path) -> None:
    (project.parent / "outside.png").write_bytes(PNG)
    page = html(project, "![own](a.png) ![other](../../outside.png) ![far](https://x.org/a.png)")
    assert re.findall(r'src="([^"]*)"', page) == ["data:image/png;base64,iVBORw0KGgo="]


def test_document_runs_nothing(project: Path) -> None:
    page = html(project, "# T\n\n<script>x()</script><b onclick='x()'>bold</b>\n")
    assert "script" not in page and "onclick" not in page and "<b>bold</b>" in page


def test_document_of_every_page_of_the_project_links_to_existing_anchors() -> None:
    pages = document_pages(ROOT)
    every = {
        address: document(ROOT, name, Place(address, frozenset()), pages)[1]
        for name, address in pages.items()
    }
    for name, page in every.items():
        for address, anchor in re.findall(r'<a href="\.\./([^"#]+)#([^"]+)"', page):
            assert f'id="{anchor}"' in every[address], (name, address, anchor)


def test_plain_text_has_no_tags() -> None:
    assert plain_text("<p>a &lt; <b>b</b>\n c</p>") == "a < b c"
