"""The figure of the two hosts, and its copy in docs/."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from labs.read.display.topology import topology

DOCS = Path(__file__).resolve().parents[4] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def test_topology_is_svg_with_a_text_alternative() -> None:
    root = ElementTree.fromstring(topology(rate_mbit=100.0, delay_ms=40.0))
    assert root.tag == f"{SVG}svg" and root.get("role") == "img"
    assert str(root.get("aria-label")).startswith("Topology. The server sends")
    assert root[0].tag == f"{SVG}title" and root[0].text == root.get("aria-label")
    words = [one.text for one in root.iter(f"{SVG}text")]
    assert "data: 100 Mbit/s, 40 ms" in words
    assert "server, 10.77.0.1" in words and "client, 10.77.0.2" in words


def test_topology_without_figures_names_none() -> None:
    words = [one.text for one in ElementTree.fromstring(topology()).iter(f"{SVG}text")]
    assert "data" in words


def test_copy_in_docs_is_what_the_code_draws() -> None:
    drawn = topology(rate_mbit=1000.0, delay_ms=200.0)
    assert (DOCS / "topology.svg").read_text("utf-8") == drawn, "draw it again: make figure"
