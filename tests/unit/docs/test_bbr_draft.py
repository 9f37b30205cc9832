"""docs/bbr-draft.md has the ledger's words; tests/virtual/test_bbr_draft.py has its figures."""

from __future__ import annotations

import tomllib

import pytest

from docs.bbr_draft import JUDGES, LEDGER, PAGE
from docs.recipes import bbr_draft
from labs.read.readings import bbr_phases
from labs.read.readings.bbr_phases import CRUISE, DOWN, DRAIN, PROBE_RTT, STARTUP, UP

CASES = tomllib.loads(LEDGER.read_text("utf-8"))["case"]


def test_ledger_has_every_section_of_the_appendix() -> None:
    """draft-ietf-ccwg-bbr-06, appendix A."""
    assert [case["id"] for case in CASES] == [f"A.{number}" for number in range(1, 23)]
    assert len(JUDGES) == len(CASES)


def test_every_condition_is_judged_and_exists() -> None:
    judged = {name for case in CASES for name in case["conditions"]}
    assert judged == {name for name, *_ in bbr_draft.traffics()}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_page_has_the_words_of_the_ledger(case: dict[str, str]) -> None:
    page = PAGE.read_text("utf-8")
    assert all(case[words] in page for words in ("title", "asks", "version1"))


@pytest.mark.parametrize(
    ("pacing_gain", "cwnd_gain", "expected"),
    [
        # bbr_high_gain, bbr_drain_gain, bbr_pacing_gain and bbr_cwnd_gain of tcp_bbr.c, in 1/256
        (739 / 256, 739 / 256, STARTUP),
        (88 / 256, 739 / 256, DRAIN),
        (320 / 256, 2.0, UP),
        (192 / 256, 2.0, DOWN),
        (1.0, 2.0, CRUISE),
        (1.0, 1.0, PROBE_RTT),
    ],
)
def test_state_by_gains(pacing_gain: float, cwnd_gain: float, expected: str) -> None:
    assert bbr_phases.state(pacing_gain, cwnd_gain) == expected


def test_round_trips_end_when_what_was_in_flight_has_arrived() -> None:
    """By hand: ten in flight, then twenty; at 40 half of the third round has arrived."""
    samples = [(0.0, 10.0), (5.0, 15.0), (10.0, 20.0), (30.0, 20.0), (40.0, 20.0)]
    assert list(bbr_phases.round_trips(samples)) == [0, 0.5, 1, 2, 2.5]
