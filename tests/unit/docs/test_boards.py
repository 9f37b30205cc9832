"""The board sketches in docs/boards are those that docs/boards.py draws now."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from docs.boards import BOARDS, FOLDER, HEIGHT, WIDTH, allowed

MOST_BYTES = 10_000
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", BOARDS)
def test_board_is_current_small_and_told(name: str) -> None:
    """If this fails: .venv/bin/python docs/boards.py"""
    drawn = BOARDS[name]()
    assert (FOLDER / name).read_text("utf-8") == drawn
    assert len(drawn) < MOST_BYTES
    root = ElementTree.fromstring(drawn)
    assert root.findtext(f"{SVG}title") == root.attrib["aria-label"]
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) <= WIDTH and 0 <= float(text.attrib["y"]) <= HEIGHT


def test_boards_folder_has_nothing_else() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(BOARDS)


def test_first_board_has_the_figures_of_the_kernel_and_the_link() -> None:
    """1000 Mbit/s x 0.2 s / 8 = 25 MB = 23.84 MiB. tcp_rmem[2] is 6 MiB, of which tcp_adv_win_scale
    1 leaves half; two thirds of tcp_wmem[2], 4 MiB, are 2.67 MiB before the overhead of packets."""
    bdp, window, send = allowed()
    assert bdp == pytest.approx(23.84, abs=0.01)
    assert window == pytest.approx(3.0, abs=0.01)
    assert send == pytest.approx(2.67, rel=0.03)
