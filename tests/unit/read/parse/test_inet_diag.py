"""The decoder of the sampler's records, on messages of real kernels."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.read.parse import inet_diag
from labs.read.parse.inet_diag import tcp_info

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"


def samples(name: str) -> tuple[inet_diag.Sample, ...]:
    return inet_diag.samples((FIXTURES / name).read_bytes())


def attribute(kind: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return struct.pack("<HH", length, kind) + payload + bytes(-length % 4)


def message(*attributes: bytes, family: int = 2, state: int = 1, timer: int = 0) -> bytes:
    addresses = bytes((10, 0, 0, 1)) + bytes(12) + bytes((10, 0, 0, 2)) + bytes(12)
    return (
        bytes((family, state, timer, 0))
        + (80).to_bytes(2, "big")
        + (4000).to_bytes(2, "big")
        + addresses
        + struct.pack("<8I", 0, 7, 0, 0, 11, 22, 1000, 99)
        + b"".join(attributes)
    )


def test_samples_of_6_18_have_every_field() -> None:
    found = samples("samples-loopback.bin")
    full = [sample.tcp for sample in found if sample.tcp is not None]
    assert len(full) == len(found)
    assert all(info.rcv_wnd_bytes is not None for info in full)
    assert all(info.accecn_bits is not None for info in full)
    assert {sample.congestion for sample in found} >= {"bbr", "cubic", "reno"}
    assert {sample.timer for sample in found} >= {"off", "on", "keepalive", "persist"}
    assert {sample.state for sample in found} >= {"ESTAB", "FIN-WAIT-2", "CLOSE-WAIT", "SYN-SENT"}
    assert {sample.unknown_attributes for sample in found} == {()}


@pytest.mark.parametrize("length", [0, 7, 104, 136, 192, 232, 248, 280, 300])
def test_tcp_info_of_any_length(length: int) -> None:
    info = tcp_info(bytes(range(256)) * 2 if length > 256 else bytes(range(256))[:length])
    assert tcp_info(bytes(length)).beyond_bytes == max(0, length - 280)
    assert (info.tcp_state is None) == (length == 0)
    assert (info.total_retrans_segments is None) == (length < 104)
    assert (info.bytes_received is None) == (length < 136)
    assert (info.sndbuf_limited_us is None) == (length < 192)
    assert (info.snd_wnd_bytes is None) == (length < 232)
    assert (info.total_rto_time_ms is None) == (length < 248)


def test_tcp_info_splits_bit_fields() -> None:
    info = tcp_info(bytes((1, 4, 2, 3, 5, 7, 0xA7, 0b101)))
    assert (info.snd_wscale, info.rcv_wscale) == (7, 10)
    assert (info.app_limited, info.fastopen_client_fail) == (True, 2)
    assert info.rto_us is None


def test_tcp_info_ignores_half_a_field() -> None:
    assert tcp_info(bytes(10)).rto_us is None
    assert tcp_info(bytes(10)).beyond_bytes == 2


def test_sample_names_small_attributes() -> None:
    sample = inet_diag.sample(
        5,
        message(
            attribute(5, b"\x10"),
            attribute(15, struct.pack("<I", 42)),
            attribute(8, b"\x02"),
            attribute(21, struct.pack("<Q", 77)),
            attribute(4, b"cubic\0"),
            attribute(14, b""),
        ),
    )
    assert sample.extra == {"tos": 16, "mark": 42, "cgroup_id": 77}
    assert (sample.shutdown, sample.congestion, sample.unknown_attributes) == ("<--", "cubic", ())
    assert (sample.recv_q_bytes, sample.send_q_bytes) == (11, 22)
    assert (sample.uid, sample.inode, sample.at_ns) == (1000, 99, 5)


def test_sample_lists_unknown_attributes() -> None:
    sample = inet_diag.sample(
        0,
        message(
            attribute(99, b"abc"),
            attribute(20, b""),
            attribute(7, bytes(8)),
            attribute(4, b"reno\0"),
        ),
    )
    assert sample.unknown_attributes == (99, 20, 7)
    assert sample.congestion == "reno"


def test_sample_of_vegas_and_an_old_memory_block() -> None:
    sample = inet_diag.sample(
        0,
        message(
            attribute(3, struct.pack("<4I", 1, 2, 3, 4)),
            attribute(1, struct.pack("<4I", 5, 6, 7, 8)),
        ),
    )
    assert sample.algorithm == inet_diag.Vegas(1, 2, 3, 4)
    assert sample.short_memory == inet_diag.ShortMemory(5, 6, 7, 8)


def test_sample_of_ipv6_and_unknown_numbers() -> None:
    sample = inet_diag.sample(0, message(family=10, state=40, timer=9))
    assert sample.local_address == "a00:1::"
    assert (sample.state, sample.timer) == ("40", "9")


@pytest.mark.parametrize("read", [inet_diag.samples, inet_diag.readable_samples])
@pytest.mark.parametrize("cut", [1, 11, 12, 60])
def test_cut_records_are_refused(read: Callable[[bytes], object], cut: int) -> None:
    data = (FIXTURES / "samples-6.1-loss-bbr.bin").read_bytes()
    with pytest.raises(Damaged, match="cut"):
        read(data[:cut])
    with pytest.raises(Damaged, match="cut"):
        read(data[:-cut])


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("samples-*.bin")), ids=lambda one: one.stem)
def test_every_sample_is_counted(file: Path) -> None:
    data = file.read_bytes()
    assert inet_diag.readable_samples(data) == len(inet_diag.samples(data))


def test_sample_refuses_wrong_lengths() -> None:
    with pytest.raises(Damaged, match="at least 72"):
        inet_diag.sample(0, bytes(71))
    with pytest.raises(Damaged, match="attribute"):
        inet_diag.sample(0, message(struct.pack("<HH", 40, 2)))
    with pytest.raises(Damaged, match="attribute"):
        inet_diag.sample(0, message(struct.pack("<HH", 3, 2)))
