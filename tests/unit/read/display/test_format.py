"""Numbers and texts as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from labs.read.display.format import figures_in_words


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (None, ""),
        (13.4, "13.4"),
        (114.01634, "114"),
        (52427352, "52,427,352"),
        (2.0, "2"),
        (0.24993, "0.2499"),
        (200.0008, "200"),
        (1023.9, "1,024"),
        ("by far", "by far"),
        ({"mean": 77.8, "end": 92.7}, "mean: 77.8, end: 92.7"),
        ({"net.ipv4.tcp_rmem": "4096 131072 6291456"}, "net.ipv4.tcp_rmem: 4096 131072 6291456"),
    ],
)
def test_figures_in_words(figure: Any, text: str) -> None:
    assert figures_in_words(figure) == text
