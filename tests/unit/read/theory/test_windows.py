"""What a buffer permits in flight, against the kernels' own figures."""

from __future__ import annotations

import pytest

from labs.guest.units import KIB, MIB
from labs.read.theory.kernels import first_ratio
from labs.read.theory.windows import (
    connected_send_bytes,
    granted_bytes,
    granted_send_bytes,
    receive_window_bytes,
    scaling_ratio,
    segment_overhead_bytes,
    send_bound_bytes,
    smallest_bytes,
)


def test_granted_bytes_doubles_and_caps() -> None:
    """Doubled, not below the kernel's smallest, capped before it is doubled."""
    cap = 212992
    assert [granted_bytes(size, cap, "receive") for size in (1, 2304, 65536, cap, cap + 1)] == [
        2304,
        4608,
        131072,
        425984,
        425984,
    ]
    assert [granted_bytes(size, cap, "send") for size in (1, 2304, 4096)] == [4608, 4608, 8192]


def test_receive_window_bytes_to_the_byte() -> None:
    # rcv_ssthresh as inet_diag showed it in those runs, and as it is given for other kernels.
    assert receive_window_bytes(1048576, "6.1") == 522840
    assert receive_window_bytes(131072, "6.1") == 64088
    assert receive_window_bytes(524288, "6.1") == 260696
    assert receive_window_bytes(6291456, "6.12") == 4716786
    assert receive_window_bytes(104857600, "6.12") == 78641394
    assert receive_window_bytes(1048576, "6.12", offloads=False) == 625248
    # 6.1 with a buffer that had grown there: one segment less 84 bytes.
    assert abs(receive_window_bytes(6291456, "6.1") - 3144364) < 1448


def test_scaling_ratio_and_first_ratio() -> None:
    assert scaling_ratio() == 192
    assert scaling_ratio(1448, 2408) == 153
    # Debian's own kernels over veth, with and without offloads; a TUN device; MSS 1024.
    assert (scaling_ratio(2896, 3792), scaling_ratio(1448, 2344)) == (195, 158)
    assert (scaling_ratio(1448, 2304), scaling_ratio(1024, 2304)) == (160, 113)
    assert scaling_ratio(1, 10**6) == 1
    assert (first_ratio("6.6"), first_ratio("6.12")) == (65, 128)


def test_receive_window_bytes_ignores_adv_win_scale_from_6_6() -> None:
    old = [receive_window_bytes(MIB, "6.1", adv_win_scale=scale) for scale in (-2, -1, 0, 1, 2)]
    assert old == [
        MIB // 4 - 1448,
        MIB // 2 - 1448,
        MIB - 1448,
        MIB // 2 - 1448,
        MIB * 3 // 4 - 1448,
    ]
    new = {receive_window_bytes(MIB, "6.6", adv_win_scale=scale) for scale in (-2, 0, 1, 2)}
    assert len(new) == 1


def test_receive_window_bytes_of_a_locked_buffer() -> None:
    shares = [
        receive_window_bytes(MIB, kernel, locked=True) / MIB for kernel in ("6.8", "6.10", "6.11")
    ]
    assert shares == pytest.approx([0.254, 0.5, 0.75], abs=0.01)


def test_segment_overhead_bytes_and_send_bound_bytes() -> None:
    assert (segment_overhead_bytes("6.1"), segment_overhead_bytes("6.12")) == (1280, 960)
    # A small buffer holds whole super-packets of 65,160 bytes, at least one.
    assert send_bound_bytes(32768, "6.12") == 65160
    assert send_bound_bytes(131072, "6.12") == 130320
    assert send_bound_bytes(4194304, "6.1") < send_bound_bytes(4194304, "6.12")


def test_old_buffers_are_what_iperf_printed_in_the_article() -> None:
    """In its KByte of 1,024, with three digits: A5.1 has 19.3 KB to send, A5.3 2.23 KB for -w 1K,
    and A5.4 2 KB for -w 1G, which overflows."""
    sizes = (connected_send_bytes(), smallest_bytes()["receive"], smallest_bytes()["send"])
    assert [f"{size / KIB:.3g}" for size in sizes] == ["19.3", "2.23", "2"]


def test_granted_send_bytes_overflow_at_1_gib() -> None:
    """A5.4b: 1 GB is the most of requests that double; with -w 1G it is 2 KB."""
    assert [granted_send_bytes(mib * MIB) for mib in (1, 512, 1024)] == [2 * MIB, 1024 * MIB, 2048]
