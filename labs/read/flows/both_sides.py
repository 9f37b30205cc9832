"""What both sides of a connection had sent, acknowledged and offered before each segment."""

from __future__ import annotations

from typing import Final

from labs.read.capture.segment_table import ACK, RST
from labs.read.native.compiled import Int8s, Int32s, Int64s, Uint16s, compiled, native

NONE: Final = -1

# Rows of `states`. Each constant is the client's row; the server's is the next one.
SENT: Final = 0
ACKED: Final = 2
EDGE: Final = 4
WINDOW: Final = 6
SHUT: Final = 8
SMALL: Final = 10
ROWS: Final = 12


@native
def write_states(
    starts: Int64s,
    direction: Int8s,
    flags: Uint16s,
    length: Int64s,
    end: Int64s,
    ack: Int64s,
    offered: Int64s,
    window: Uint16s,
    mss_bytes: Int32s,
    now: Int64s,
    states: Int64s,
) -> None:
    """Write the state before each segment into `states`, whose rows are the constants above.

    The other arrays are those of `ConnectionState`, except that `window` is the window as sent, and
    `now` is scratch of ROWS numbers.
    """
    for number in range(len(starts) - 1):
        for row in range(ROWS):
            now[row] = NONE
        for at in range(starts[number], starts[number + 1]):
            for row in range(ROWS):
                states[row, at] = now[row]
            by = direction[at]
            # As in tcp_minshall_update(), retransmissions do not count. A frame that the device
            # splits (TSO) is not full if its last piece is not.
            if length[at] % mss_bytes[at] != 0 and end[at] > now[SENT + by]:
                now[SMALL + by] = end[at]
            now[SENT + by] = max(now[SENT + by], end[at])
            if offered[at] != NONE:
                now[WINDOW + by] = offered[at]
            if flags[at] & ACK:
                _acknowledge(by, ack[at], offered[at], now)
                if not flags[at] & RST:
                    now[SHUT + by] = window[at] == 0


@compiled
def _acknowledge(by: int, ack: int, offered: int, now: Int64s) -> None:
    """What an ACK of side `by` tells about the data of the other side."""
    now[ACKED + 1 - by] = max(now[ACKED + 1 - by], ack)
    if offered >= 0:
        now[EDGE + 1 - by] = ack + offered
