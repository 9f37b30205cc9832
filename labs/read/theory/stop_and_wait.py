"""How little of a link is used when each block waits for the answer to the one before it."""

from __future__ import annotations


def sending_ms(block_bytes: float, rate_bytes_s: float) -> float:
    """How long a block takes to be put on the line; 10 ms for 1 MB at 100 MB/s."""
    return 1e3 * block_bytes / rate_bytes_s


def utilisation_pct(block_bytes: float, rate_bytes_s: float, rtt_ms: float) -> float:
    """The share of its time that the line is busy, in %: L/R of every L/R + RTT.

    A block takes L/R to be sent, and the answer to its last byte is here one round trip after
    that; then the next block is sent. 2.44 % for 1 MB at 100 MB/s and 400 ms (10 of 410 ms),
    4.76 % at 200 ms (10 of 210 ms).
    Source: the stop-and-wait protocol of any textbook, with neither losses nor headers.
    """
    busy_ms = sending_ms(block_bytes, rate_bytes_s)
    return 100 * busy_ms / (busy_ms + rtt_ms)


def of_the_wait_pct(block_bytes: float, rate_bytes_s: float, rtt_ms: float) -> float:
    """The same without the sending in the cycle, in %: L/R of every RTT.

    How it is reckoned in one's head (10 of 400 ms are 2.5 %, of 200 ms 5 %): good while a block is
    short against the round trip, and more than 100 % once it is longer.
    """
    return 100 * sending_ms(block_bytes, rate_bytes_s) / rtt_ms
