"""Reports of iperf3 3.12: an interrupted transfer, a refused size, and what is no report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.errors import Damaged
from labs.read.parse.reports import iperf3_error as error

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"


def report(name: str) -> object:
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("iperf3-interrupted.json", "interrupt - the client has terminated"),
        ("iperf3-refused.json", "socket buffer size not set correctly"),
    ],
)
def test_error_of_a_real_report(name: str, expected: str) -> None:
    assert error(report(name)) == expected


def test_error_of_a_report_without_one() -> None:
    assert error({"start": {}, "end": {}}) is None


@pytest.mark.parametrize(
    "said",
    [None, [], "iperf3", {}, {"start": []}, {"start": {}, "error": 1}, {"start": {}, "error": ""}],
)
def test_error_of_no_report_is_damaged(said: object) -> None:
    with pytest.raises(Damaged, match=r"report|text"):
        error(said)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda one: (
            st.dictionaries(st.sampled_from(["start", "error", "end"]), one) | st.lists(one)
        ),
    )
)
def test_error_of_any_json_is_a_text_or_damaged(said: object) -> None:
    try:
        found = error(said)
    except Damaged:
        return
    assert found is None or isinstance(found, str)
