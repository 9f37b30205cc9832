"""Axes of a plan: names, zips, seeds, exclusions and the size of the product."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.batches import plan_file
from labs.batches.plan_file import read_plan
from labs.errors import BadInput
from tests.plans import of_buffers, plan, refused_at, write_plan

TWO = "RATE_MBIT: [1, 2]\nDELAY_MS: [10, 20]\n"


def rows(folder: Path, text: str) -> list[tuple[object, ...]]:
    return [tuple(point.values.values()) for point in plan(folder, text).points]


def test_zip_lets_axes_advance_together_at_the_place_of_the_first(tmp_path: Path) -> None:
    text = 'KERNEL: ["6.1", "7.2"]\n' + TWO + "LOSS_PCT: 0\nzip: [[DELAY_MS, KERNEL]]"
    zipped = plan(tmp_path, text)
    assert zipped.count == 4 and zipped.varied == ("DELAY_MS", "KERNEL", "RATE_MBIT")
    assert [tuple(point.values.values()) for point in zipped.points] == [
        (10, "6.1", 1, 0),
        (10, "6.1", 2, 0),
        (20, "7.2", 1, 0),
        (20, "7.2", 2, 0),
    ]


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("repetitions: 3", [1, 2, 3]),
        ("SEED: 7\nrepetitions: 2", [7, 8]),
        ("repetitions: 1", [1]),
        ("seeds: [1, 5, 9]", [1, 5, 9]),
        ("seeds: {from: 2, to: 6, step: 2}", [2, 4, 6]),
        ("SEED: [4, 3]", [4, 3]),
    ],
)
def test_seeds_are_the_last_axis(tmp_path: Path, text: str, seeds: list[int]) -> None:
    points = list(plan(tmp_path, f"{text}\nRATE_MBIT: 5").points)
    assert [point.values["SEED"] for point in points] == seeds


def test_seeds_vary_fastest_and_can_be_zipped(tmp_path: Path) -> None:
    assert rows(tmp_path, "repetitions: 2\nRATE_MBIT: [5, 6]") == [(5, 1), (5, 2), (6, 1), (6, 2)]
    text = "seeds: [3, 4]\nRATE_MBIT: [5, 6]\nzip: [[RATE_MBIT, SEED]]"
    assert rows(tmp_path, text) == [(5, 3), (6, 4)]


def test_exclude_takes_values_lists_and_open_ranges(tmp_path: Path) -> None:
    text = (
        "RATE_MBIT: [1, 2, 3]\nDELAY_MS: {from: 10, to: 50, step: 10}\nexclude:\n"
        "- {RATE_MBIT: 2.0}\n- {RATE_MBIT: [1], DELAY_MS: {from: 20}}\n"
        "- {RATE_MBIT: 3, DELAY_MS: {to: 10}}\n- {DELAY_MS: {from: 35, to: 45}}"
    )
    assert rows(tmp_path, text) == [(1, 10), (3, 20), (3, 30), (3, 50)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("RATE_MBITS: 3", 2),
        ("RATE_MBIT:\n- 1\n- two", 4),
        ("RATE_MBIT:\n- 1\n- 2\n- 1.0", 5),
        ("RATE_MBIT: [1,\n 1000000]", 3),
        ("RATE_MBIT: .nan", 2),
        ("RATE_MBIT: {from: 5, to: 1, steps: 3}", 2),
        ("RATE_MBIT: {from: 1, to: .inf, steps: 3}", 2),
        ("\nRATE_MBIT: {from: 0, to: 1, steps: 3}", 3),
        ("KERNEL: 6.1", 2),
        ("KERNEL: {from: 1, to: 2, steps: 2}", 2),
        ("TESTBED:\n- virtual\n- virtul", 4),
        ("CAPTURE: 1", 2),
        (TWO + "zip:\n- [RATE_MBIT, DELAY]", 5),
        (TWO + "zip:\n- [RATE_MBIT, LOSS_PCT]", 5),
        (TWO + "LOSS_PCT: [0, 1, 2]\nzip:\n- [RATE_MBIT, LOSS_PCT]", 6),
        (TWO + "LOSS_PCT: 0\nzip:\n- [RATE_MBIT, LOSS_PCT]", 6),
        (TWO + "zip:\n- [RATE_MBIT,\n   RATE_MBIT]", 6),
        (TWO + "KERNEL: ['6.1', '7.2']\nzip:\n- [RATE_MBIT, DELAY_MS]\n- [KERNEL, DELAY_MS]", 7),
        (TWO + "exclude:\n- RATE_MBI: 1", 5),
        (TWO + "exclude:\n- LOSS_PCT: 0", 5),
        (TWO + "exclude:\n- RATE_MBIT: [1,\n   x]", 6),
        (TWO + "exclude:\n- RATE_MBIT: {from: 2, to: 1}", 5),
        (TWO + "KERNEL: '6.1'\nexclude:\n- KERNEL: {from: 2}", 6),
        (TWO + "exclude:\n- RATE_MBIT: {from: 1}", 4),
        ("repetitions: 2\nseeds: [1]", 2),
        ("seeds: [1]\nSEED: 3", 3),
        ("repetitions: 2\nSEED: [1, 3]", 3),
        ("SEED: x\nrepetitions: 2", 2),
        ("SEED: 2147483647\nrepetitions: 2", 3),
        ("\nseeds: [1,\n 1]", 4),
    ],
)
def test_grid_refuses_with_the_line(tmp_path: Path, text: str, line: int) -> None:
    assert refused_at(write_plan(tmp_path, of_buffers(text))) == line


@pytest.mark.parametrize(
    "text",
    [
        "LOSS_PCT: 0\nRATE_MBIT: {from: 1, to: 2, steps: 1000000000}",
        "LOSS_PCT: 0\nRATE_MBIT: {from: 1, to: 1.0e+30, step: 1}",
        "LOSS_PCT: 0\nRATE_MBIT: {from: 1, to: 2, step: 1.0e-300}",
        "LOSS_PCT: 0\nrepetitions: 1000000000000000000000000000000",
        "\n".join(
            ["LOSS_PCT: 0", "RATE_MBIT: {from: 1, to: 2, steps: 1001}"]
            + [f"{name}: {{from: 1, to: 2, steps: 1000}}" for name in ("DELAY_MS", "BUFFER_MIB")]
        ),
    ],
)
def test_grid_refuses_a_huge_product_at_its_longest_axis(tmp_path: Path, text: str) -> None:
    """A product that was expanded would end in MemoryError, or in the test's timeout."""
    assert refused_at(write_plan(tmp_path, of_buffers(text))) == 3


def test_the_product_before_exclusions_counts_against_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_plan(tmp_path, of_buffers(TWO + "exclude: [{RATE_MBIT: 1}]"))
    monkeypatch.setattr(plan_file, "MOST_POINTS", 4)
    assert read_plan(path).count == 2
    monkeypatch.setattr(plan_file, "MOST_POINTS", 3)
    with pytest.raises(BadInput, match=r"4 points .* at most 3\."):
        read_plan(path)


def test_grid_names_the_nearest_parameter(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"did you mean RATE_MBIT\?"):
        plan(tmp_path, "RATE_MBITS: 3")
