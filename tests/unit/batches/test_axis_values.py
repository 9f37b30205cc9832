"""Values, lists and ranges of one axis."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.batches.axes import size, values_of
from labs.drive.parameters.declare import Parameter
from labs.errors import BadInput

NUMBER = Parameter("rate", float, 1.0, low=-1e6, high=1e6)
WHOLE = Parameter("count", int, 1, low=-(10**6), high=10**6)
TEXT = Parameter("kernel", str, "6.1")
SWITCH = Parameter("capture", bool, False)


class At(BadInput):
    """A refusal and the index of the value in its list, if there is one."""

    def __init__(self, text: str, *index: int) -> None:
        super().__init__(text)
        self.index = index


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (5, [5]),
        ([3, 1, 2.5], [3, 1, 2.5]),
        ({"from": 0, "to": 1, "steps": 5}, [0, 0.25, 0.5, 0.75, 1]),
        ({"from": 0, "to": 1, "steps": 4}, [0, 0.333333, 0.666667, 1]),
        ({"from": 0.1, "to": 0.5, "step": 0.1}, [0.1, 0.2, 0.3, 0.4, 0.5]),
        ({"from": 0, "to": 1, "step": 0.3}, [0, 0.3, 0.6, 0.9]),
        ({"from": 0.1, "to": 0.3, "step": 0.2}, [0.1, 0.3]),
        ({"from": 1, "to": 1000, "steps": 4, "scale": "log"}, [1, 10, 100, 1000]),
        ({"from": 0.1, "to": 50, "steps": 3, "scale": "log"}, [0.1, 2.23607, 50]),
        ({"from": 1.2345678, "to": 9.8765432, "steps": 2}, [1.2345678, 9.8765432]),
        ({"from": -1, "to": 1, "steps": 3}, [-1, 0, 1]),
    ],
)
def test_values_of_a_number(given: Any, values: list[float]) -> None:
    read = values_of(given, NUMBER, At)
    assert list(read) == values and {type(value) for value in read} == {float}
    assert size(given) == len(values)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"from": 1, "to": 10, "steps": 4}, [1, 4, 7, 10]),
        ({"from": 1, "to": 8, "steps": 3}, [1, 4, 8]),
        ({"from": 1, "to": 4.0, "step": 1.0}, [1, 2, 3, 4]),
        ({"from": 1, "to": 1000, "steps": 3, "scale": "log"}, [1, 32, 1000]),
    ],
)
def test_values_of_a_whole_number(given: Any, values: list[int]) -> None:
    read = values_of(given, WHOLE, At)
    assert list(read) == values and {type(value) for value in read} == {int}


@pytest.mark.parametrize(
    ("given", "parameter", "index"),
    [
        ([1, 2, 1.0], NUMBER, 2),
        (["a", "b", "a"], TEXT, 2),
        ([True, True], SWITCH, 1),
        ([1, "1"], NUMBER, 1),
        ([1, True], NUMBER, 1),
        ([1, 1.0], WHOLE, 1),
        ([1, 2e6], NUMBER, 1),
        (6.1, TEXT, 0),
        ({"from": 1, "to": 2, "steps": 2}, TEXT, None),
        ({"from": 0, "to": 1, "steps": 2}, SWITCH, None),
        ({"from": 0.5, "to": 3, "steps": 2}, WHOLE, None),
        ({"from": 1, "to": 3, "step": 0.5}, WHOLE, None),
        ({"from": 1, "to": 3, "steps": 4}, WHOLE, None),
        ({"from": 1, "to": 1.0000001, "steps": 4}, NUMBER, None),
        ({"from": 1, "to": 2e6, "steps": 4}, NUMBER, None),
    ],
)
def test_values_of_refuses(given: Any, parameter: Parameter, index: int | None) -> None:
    with pytest.raises(At) as caught:
        values_of(given, parameter, At)
    assert caught.value.index == (() if index is None else (index,))


@pytest.mark.parametrize(
    "given",
    [
        {"from": 2, "to": 1, "steps": 3},
        {"from": 2, "to": 2, "steps": 3},
        {"from": 1, "to": float("inf"), "steps": 3},
        {"from": float("nan"), "to": 2, "steps": 3},
        {"from": 1, "to": 2, "step": 3},
        {"from": 1, "to": 2, "step": float("inf")},
    ],
)
def test_size_refuses_less_than_two_values(given: Any) -> None:
    with pytest.raises(BadInput):
        size(given)


def test_size_of_a_range_is_exact_without_its_values() -> None:
    assert size({"from": 0, "to": 10**30, "step": 1}) == 10**30 + 1
    assert size({"from": 0, "to": 1, "step": 1e-300}) == 10**300 + 1
    assert size({"from": 0, "to": 1, "steps": 10**200, "scale": "log"}) == 10**200


@given(
    st.floats(0.001, 1e5),
    st.floats(1.01, 100),
    st.integers(2, 60),
    st.sampled_from(["log", "linear"]),
)
def test_values_of_a_range_are_its_ends_and_between(
    low: float, factor: float, steps: int, scale: str
) -> None:
    high = low * factor
    if high <= 1e6:
        values = values_of({"from": low, "to": high, "steps": steps, "scale": scale}, NUMBER, At)
        assert (values[0], values[-1], len(values)) == (low, high, steps)
        assert sorted(set(values)) == list(values)
        assert all(float(f"{value:.6g}") == value for value in values[1:-1])
