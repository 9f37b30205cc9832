"""The kernel's options: how they are read, and that one which did not take is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.drive.kernel.fragment import fragment_text, not_taken, parse, verify
from labs.errors import Damaged, RunFailed


def test_options_of_every_kind_are_read() -> None:
    text = '# why\n\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_HZ=250\nCONFIG_S="a b"\n'
    assert parse(text) == {
        "CONFIG_A": "y",
        "CONFIG_B": "n",
        "CONFIG_HZ": "250",
        "CONFIG_S": '"a b"',
    }


def test_a_later_line_wins() -> None:
    assert parse("CONFIG_A=y\n# CONFIG_A is not set\n") == {"CONFIG_A": "n"}


@pytest.mark.parametrize(
    "line",
    ["CONFIG_A = y", "CONFIG_A", "A=y", "# CONFIG_A is not  set", "# CONFIG_A=y", " CONFIG_A=y"],
)
def test_a_mistyped_line_is_not_a_comment(line: str) -> None:
    with pytest.raises(Damaged, match="line 2"):
        parse(f"CONFIG_Z=y\n{line}\n")


def test_what_did_not_take_is_named() -> None:
    wanted = parse("CONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\nCONFIG_HZ=250\n")
    config = parse("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_HZ=100\n")
    assert not_taken(wanted, config) == (
        "CONFIG_B (wanted y, is n)",
        "CONFIG_C (wanted n, is y)",
        "CONFIG_HZ (wanted 250, is 100)",
    )
    with pytest.raises(RunFailed, match=r"6\.1\.192 .*CONFIG_B .*fragment-6\.1\.config"):
        verify(wanted, config, "6.1.192")


def test_an_option_that_is_not_known_counts_as_off() -> None:
    verify(parse("# CONFIG_SLUB_TINY is not set\n"), {}, "6.1.192")
    assert not_taken(parse("CONFIG_A=y\n"), {}) == ("CONFIG_A (wanted y, is n)",)


def test_a_series_has_lines_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "fragment.config").write_text("CONFIG_A=y\n")
    (tmp_path / "fragment-5.10.config").write_text("CONFIG_BLOCK=y\n")
    assert parse(fragment_text("6.1", tmp_path)) == {"CONFIG_A": "y"}
    assert parse(fragment_text("5.10", tmp_path)) == {"CONFIG_A": "y", "CONFIG_BLOCK": "y"}


def test_our_own_fragment_names_each_option_once() -> None:
    text = fragment_text("6.1")
    lines = [line for line in text.splitlines() if "CONFIG_" in line]
    options = parse(text)
    assert len(lines) == len(options)
    assert options["CONFIG_UML_TIME_TRAVEL_SUPPORT"] == "y"
    assert options["CONFIG_UML_RANDOM"] == "n"
    assert options["CONFIG_HZ"] == "250"
