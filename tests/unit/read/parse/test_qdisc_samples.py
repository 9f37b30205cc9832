"""The samples of a queue: real records of a pfifo in a virtual kernel (Linux 6.1), of 1,000 packets
at 50 Mbit/s beside a CUBIC flow."""

from __future__ import annotations

import pytest

from labs.errors import Damaged
from labs.read.parse.qdisc_samples import queue_samples

EMPTY = bytes.fromhex(
    "004b894a845bd7189800000000000000040000000000100010000100010000000a000100706669666f000000"
    "08000200e803000005000c000000000004000900380007000400060014000100347c030000000000a9000000"
    "00000000040006001800030000000000000000000000000000000000000000002c000300347c030000000000"
    "a900000000000000000000000000000000000000000000000000000000000000"
)
LONG = bytes.fromhex(
    "0016c006865bd7189800000000000000040000000000100010000100010000000a000100706669666f000000"
    "08000200e803000005000c000000000004000900380007000400060014000100924081010000000008420000"
    "0000000004000600180003007a0300000c7114000000000000000000000000002c0003009240810100000000"
    "08420000000000000000000000000000000000007a0300000c71140000000000"
)


def test_queue_samples_read_the_counters_of_the_kernel() -> None:
    """169 packets of the link's check; later 890 full frames of 1514 bytes wait."""
    empty, long = queue_samples(EMPTY + LONG)
    assert (empty.kind, empty.sent_packets, empty.backlog_packets, empty.dropped) == (
        "pfifo",
        169,
        0,
        0,
    )
    assert long.backlog_packets == 890
    assert long.backlog_bytes == 1_339_660
    assert 890 * 1500 < long.backlog_bytes <= 890 * 1514
    assert long.sent_bytes == 25_247_890 and long.sent_packets == 16_904
    assert long.at_ns - empty.at_ns == 7_452_674_816


@pytest.mark.parametrize("cut", [5, 11, 40, len(LONG) - 1])
def test_queue_samples_refuse_what_was_cut(cut: int) -> None:
    with pytest.raises(Damaged):
        queue_samples(LONG[:cut])


def test_queue_samples_refuse_a_message_without_counters() -> None:
    message = LONG[12:52]
    with pytest.raises(Damaged, match="counters"):
        queue_samples(LONG[:8] + len(message).to_bytes(4, "little") + message)
    with pytest.raises(Damaged, match="longer than"):
        queue_samples(LONG[:8] + (24).to_bytes(4, "little") + LONG[12:36])
