"""The sizes that iperf 2 printed on the kernels of the article's time, in its KByte of 1,024."""

from __future__ import annotations

from labs.drive.units import MIB
from labs.read.theory.old_socket_buffers import (
    OLD_RMEM_BYTES,
    connected_send_bytes,
    granted_send_bytes,
    printed,
    smallest_bytes,
)


def test_default_buffers_print_as_in_the_article() -> None:
    """A5.1: 19.3 KB to send, 85.3 KB to receive."""
    assert printed(connected_send_bytes()) == "19.3"
    assert printed(OLD_RMEM_BYTES) == "85.3"


def test_smallest_buffers_print_as_in_the_article() -> None:
    """A5.3: 2.23 KB for -w 1K, and A5.4: 2 KB for -w 1G, which overflows."""
    assert printed(smallest_bytes()["receive"]) == "2.23"
    assert printed(smallest_bytes()["send"]) == "2"


def test_granted_send_bytes_overflow_at_1_gib() -> None:
    """A5.4b: 1 GB is the most of requests that double; with -w 1G it is 2 KB."""
    assert [granted_send_bytes(mib * MIB) for mib in (1, 512, 1024)] == [2 * MIB, 1024 * MIB, 2048]
