"""Lists of values: what is refused, and the points of their product."""

from __future__ import annotations

from typing import Any

import pytest

from labs.drive.parameters.axes import MOST_POINTS, axes, points, with_kernels
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers


def test_points_vary_the_last_axis_fastest() -> None:
    varied = axes(Buffers, {"delay_ms": [10, 50], "rate_mbit": (5, 20)})
    found = points(Buffers(transfer_mib=1), varied)
    assert [(p.delay_ms, p.rate_mbit) for p in found] == [(10, 5), (10, 20), (50, 5), (50, 20)]
    assert {p.transfer_mib for p in found} == {1}


def test_points_without_axes_are_the_parameters() -> None:
    assert points(Buffers(), axes(Buffers, {})) == (Buffers(),)


def test_axes_keep_each_value_once() -> None:
    assert axes(Buffers, {"delay_ms": [10, 10.0, 50]}) == {"delay_ms": (10.0, 50.0)}


def test_with_kernels_of_parameters_that_name_several() -> None:
    varied = axes(Buffers, {"delay_ms": [10]})
    assert with_kernels(Buffers(kernel="6.1,7.2"), varied)["kernel"] == ("6.1", "7.2")
    assert with_kernels(Buffers(kernel="6.1"), varied) == varied
    own = axes(Buffers, {"kernel": ["6.12"]})
    assert with_kernels(Buffers(kernel="6.1,7.2"), own) == own


def test_axes_accept_as_many_points_as_allowed() -> None:
    varied = axes(Buffers, {"seed": range(100), "delay_ms": range(MOST_POINTS // 100)})
    assert len(points(Buffers(), varied)) == MOST_POINTS


@pytest.mark.parametrize(
    ("over", "part"),
    [
        ({"rate_mbti": [50]}, "did you mean rate_mbit?"),
        ({"rate_mbit": 50}, "is not a list. Write [50]"),
        ({"rate_mbit": "50,100"}, "is not a list"),
        ({"rate_mbit": {50, 100}}, "is not a list"),
        ({"rate_mbit": ()}, "rate_mbit is an empty list"),
        ({"testbed": ["virtual", "namespaces"]}, "testbed takes one value"),
        ({"seed": range(MOST_POINTS + 1)}, "10001 points"),
        ({"seed": range(101), "delay_ms": range(100)}, "10100 points"),
        (["rate_mbit"], "is not a dict"),
    ],
)
def test_axes_refuse_in_one_line(over: Any, part: str) -> None:
    with pytest.raises(BadInput) as caught:
        axes(Buffers, over)
    assert part in str(caught.value) and "\n" not in str(caught.value)
