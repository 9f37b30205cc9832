"""What both sides of a connection had sent, acknowledged and offered, in C and in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from labs.errors import BadInput
from labs.read.capture import read
from labs.read.flows import connection_state as states
from labs.read.flows import limits, rtt
from labs.read.flows.connection_state import connection_state
from tests.made_flows import ACK, PSH, SYN, capture, random_capture, segment

PORT = 20_000
PASSES = ((states, "write_states"), (states, "find_first_acks"), (rtt, "_find_distances"))


def performed_by_python(function: Any) -> Callable[..., Any]:
    """A native function as it is performed without a compiler."""

    def call(*given: Any) -> Any:
        plain = [one.data if isinstance(one, numpy.ndarray) else one for one in given]
        return function.__wrapped__(*plain)

    return call


@pytest.fixture
def dialogue(tmp_path: Path) -> Any:
    """A request of 500 bytes, a response of two segments, and an ACK that closes the window."""
    mss = b"\2\4\5\xb4"  # 1460
    frames = [
        segment(PORT, 0, 1000, 0, SYN, window=8000, options=mss),
        segment(PORT, 1, 5000, 1001, SYN | ACK, window=9000, options=mss),
        segment(PORT, 0, 1001, 5001, ACK, window=8000),
        segment(PORT, 0, 1001, 5001, ACK | PSH, window=8000, length=500),
        segment(PORT, 1, 5001, 1501, ACK, window=9000, length=1460),
        segment(PORT, 1, 6461, 1501, ACK | PSH, window=9000, length=100),
        segment(PORT, 0, 1501, 6561, ACK, window=0),
        segment(PORT, 1, 6561, 1501, ACK, window=9000, length=1),
    ]
    return read(capture(tmp_path / "made.pcap", [*enumerate(frames)]))


def test_state_is_what_was_seen_before_each_segment(dialogue: Any) -> None:
    """RFC 9293 3.4 and 3.8.6; SYNs count as one. Nothing is known before a side's first segment."""
    known = connection_state(dialogue)
    assert known.sent[0].tolist() == [-1, 1, 1, 1, 501, 501, 501, 501]
    assert known.sent[1].tolist() == [-1, -1, 1, 1, 1, 1461, 1561, 1561]
    assert known.acked[0].tolist() == [-1, -1, 1, 1, 1, 501, 501, 501]
    assert known.acked[1].tolist() == [-1, -1, -1, 1, 1, 1, 1, 1561]
    assert known.edge[0].tolist() == [-1, -1, 9001, 9001, 9001, 9501, 9501, 9501]
    assert known.edge[1].tolist() == [-1, -1, -1, 8001, 8001, 8001, 8001, 1561]
    assert known.window[0].tolist() == [-1, 8000, 8000, 8000, 8000, 8000, 8000, 0]
    assert known.shut[0].tolist() == [-1, -1, -1, 0, 0, 0, 0, 1]
    assert known.small[0].tolist() == [-1, -1, -1, -1, 501, 501, 501, 501]
    assert known.small[1].tolist() == [-1, -1, -1, -1, -1, -1, 1561, 1561]


@pytest.mark.parametrize("seed", range(3))
def test_passes_give_the_same_in_c_and_in_python(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = read(random_capture(tmp_path / "random.pcap", seed))
    one_sided = segments[segments["direction"] == 0]
    tables = (segments, one_sided, segments[:0])

    def found(table: Any) -> list[Any]:
        known = connection_state(table)
        pairs = (known.sent, known.acked, known.edge, known.window, known.shut, known.small)
        arrays = (*(side for pair in pairs for side in pair), known.acked_by)
        return [*(one.tolist() for one in arrays), rtt.distances(known)]

    in_c = [found(table) for table in tables]
    for module, name in PASSES:
        monkeypatch.setattr(module, name, performed_by_python(getattr(module, name)))
    assert [found(table) for table in tables] == in_c


def test_chain_ends_with_the_last_place() -> None:
    assert limits._chain(numpy.array([2, 2, 3, 5, 5])).tolist() == [0, 2, 3]


def test_other_directions_are_refused(dialogue: Any) -> None:
    dialogue.loc[3, "direction"] = 2
    with pytest.raises(BadInput, match=r"a direction of 0 or 2\. Allowed: 0"):
        connection_state(dialogue)
