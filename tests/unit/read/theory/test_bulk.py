"""The simulation of a bulk flow, against transfers that were measured on the virtual kernels."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from shutil import which
from statistics import median
from typing import Any

import pytest

from benchmarks.model import flow_of
from benchmarks.points import read
from labs.drive.record import kept_answers
from labs.errors import BadInput
from labs.guest.units import KIB, MB, MIB
from labs.read.native.objects import performed_as_c
from labs.read.theory import bulk, bulk_simulation
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk import LINK, Transfer, simulated, transfer
from labs.read.theory.bulk_flow import RENO, Flow
from labs.read.theory.bulk_interval import interval
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER, SLOW_START, WAKE_UP
from labs.read.theory.bulk_simulation import DIGEST, Simulation

FIXTURES = Path(__file__).parents[3] / "fixtures" / "theory"
MEASURED: list[dict[str, Any]] = json.loads((FIXTURES / "transfers.json").read_text())["points"]
POINTS = {point.name: point for point in read("a")}
DOWNLOADS: list[dict[str, Any]] = json.loads((FIXTURES / "downloads.json").read_text())["points"]
DOWNLOAD_POINTS = {point.name: point for name in ("wget", "discard") for point in read(name)}
EVERY = 6
SENSITIVE = "a-042"
NEARBY = Flow(rate_mbit=100, rtt_ms=10, kernel="6.12")


def predicted(name: str) -> Transfer:
    return transfer(flow_of(POINTS[name]), POINTS[name].transfer_bytes)


def errors_pct(measured: dict[str, Any], found: Transfer) -> tuple[float, float]:
    return (
        100 * abs(found.goodput_bytes_s / measured["goodput_bytes_s"] - 1),
        100 * abs(found.steady_bytes_s / measured["steady_bytes_s"] - 1),
    )


def test_transfer_measured() -> None:
    # The goal at all points is 2 % and 5 %. The simulation takes the kernel's own steps, so that
    # half of the points are met to the packet; what is left is the order of events within
    # microseconds.
    chosen = {one["name"]: one for one in MEASURED[::EVERY]}
    found = {name: predicted(name) for name in chosen}
    known = [name for name in chosen if not found[name].cannot_say]
    assert len(known) >= 0.95 * len(chosen) > 30
    errors = [errors_pct(chosen[name], found[name]) for name in known]
    for column in zip(*errors, strict=True):
        assert median(column) < 0.05
    # What is farther off depends on single packets, and the interval is as wide.
    for name, (goodput, steady) in zip(known, errors, strict=True):
        if max(goodput, steady) >= 5:
            wide = interval(flow_of(POINTS[name]), POINTS[name].transfer_bytes)
            assert wide is not None and wide.width > 0.02


def test_silly_writes_into_a_small_window() -> None:
    """A point that was once 16.7 % off (h-054), as measured on 6.1.192; 0.1 %: half of all points
    are met to the packet, and this one is within 0.001 %."""
    flow = Flow(
        rate_mbit=1.815,
        rtt_ms=389.4,
        kernel="6.1",
        mss_bytes=1012,
        rcvbuf_bytes=16 * KIB,
        write_bytes=6699,
    )
    found = transfer(flow, 2 * MB)
    assert found.steady_bytes_s == pytest.approx(15_561.9, rel=0.001)
    assert found.took_s == pytest.approx(126.5584, rel=0.001)


def test_downloads_measured() -> None:
    # The goal is a median of 0.5 %, 95 % within 2 %, none above 5 %. At one point in twenty single
    # packets matter, and there the goal may be missed; half are met to the packet.
    chosen = DOWNLOADS[::EVERY]
    errors = []
    for one in chosen:
        point = DOWNLOAD_POINTS[one["name"]]
        errors.append(max(errors_pct(one, transfer(flow_of(point), point.transfer_bytes))))
    errors.sort()
    assert len(errors) > 30
    assert median(errors) < 0.05
    assert errors[int(0.9 * len(errors))] < 2


def test_interval() -> None:
    # a-042 depends on the moment within a tick at which the flow begins; NEARBY fills its link.
    point = POINTS[SENSITIVE]
    wide, narrow = interval(flow_of(point), point.transfer_bytes), interval(NEARBY, 4 * MB)
    assert wide is not None and narrow is not None
    assert wide.width > 0.02 > narrow.width
    assert wide.steady_bytes_s[0] < wide.steady_bytes_s[1]
    assert interval(NEARBY, 1) is None


@pytest.mark.parametrize(
    ("name", "measured_bytes_s", "above"), [("b-071", 2.760e6, 0.13), ("b-014", 8.188e6, 0.07)]
)
def test_interval_of_reads_between_packets(
    name: str, measured_bytes_s: float, above: float
) -> None:
    # As `make model` measured them. Whether the program reads between two packets of a burst, which
    # arrive 0 to 0.8 us apart, decides how much tcp_rcv_space_adjust() finds read, and so the
    # window, and when tcp_sendmsg_locked() pushes. The prediction has them read together.
    (point,) = (one for one in read("b") if one.name == name)
    flow = flow_of(point)
    assert transfer(flow, point.transfer_bytes).steady_bytes_s > (1 + above) * measured_bytes_s
    wide = interval(flow, point.transfer_bytes)
    assert wide is not None
    low, high = wide.steady_bytes_s
    assert low < measured_bytes_s < high


def test_transfer_cannot_say() -> None:
    assert "at once" in transfer(NEARBY, 1).cannot_say


@pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("kernel", ["5.10", "6.1", "6.12", "7.2"])
@pytest.mark.parametrize(
    "options",
    [
        {"write_bytes": 6699, "writes_per_wake": 0, "congestion": RENO},
        {"header_bytes": 246, "keep_alive": True, "read_bytes": 8192},
        {"header_bytes": 246, "read_bytes": 65_536, "reads_whole": True, "pause_ms": 90},
        {"offloads": False, "limit_s": 0.9, "rcvbuf_bytes": 16 * KIB},
    ],
    ids=["writes", "wget", "pauses", "segments"],
)
def test_simulated_in_c_is_what_python_simulates(
    kernel: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = replace(NEARBY, kernel=kernel, **options)
    c, python = (Simulation(flow, 12 * MB, phase_ns=1_300_000) for _ in range(2))
    done: list[bool] = []

    def noted(*asked: Any) -> bool:
        done.append(performed_as_c(*asked))
        return done[-1]

    monkeypatch.setattr(bulk_simulation, "performed_as_c", noted)
    c.run()
    monkeypatch.setattr(bulk_simulation, "performed_as_c", lambda *_: False)
    python.run()
    assert done == [True] and len(python.had_bytes) > 100
    assert (c.times_ns, c.had_bytes) == (python.times_ns, python.had_bytes)
    for end in ("link", "receiver", "sender", "reader"):
        of_c, of_python = (
            {name: value for name, value in vars(getattr(one, end)).items() if is_plain(value)}
            for one in (c, python)
        )
        assert of_c == of_python and len(of_c) > 5


def is_plain(value: object) -> bool:
    return isinstance(value, int | float | str | array | list)


def test_run_settled() -> None:
    # The last third of a long transfer is not simulated. 0.5 %: the tolerance of the goal's median.
    far = Flow(rate_mbit=1000, rtt_ms=100, kernel="6.12", rcvbuf_bytes=4 * MIB)
    short, whole = (Simulation(far, 1000 * MB) for _ in range(2))
    short.run()
    whole.run(whole=True)
    assert short.settled_ns is not None and whole.settled_ns is None
    assert len(short.had_bytes) < len(whole.had_bytes) / 3
    assert short.times_ns[-1] == pytest.approx(whole.times_ns[-1], rel=0.005)


@pytest.mark.parametrize("kernel", ["6.1", "7.2"])
def test_transfer_without_offloads(kernel: str) -> None:
    # The same link is filled; every segment arrives on its own.
    single = Simulation(replace(NEARBY, kernel=kernel, offloads=False), 4 * MB)
    single.run()
    assert {b - a for a, b in pairwise((0, *single.had_bytes))} == {NEARBY.mss_bytes}
    found = transfer(replace(NEARBY, kernel=kernel, offloads=False), 32 * MIB)
    assert found.steady_bytes_s == pytest.approx(line_goodput_bytes_s(100), rel=0.001)


@pytest.mark.parametrize(
    "change", [{"rate_mbit": 0}, {"rtt_ms": 0}, {"mss_bytes": 0}, {"write_bytes": -1}]
)
def test_transfer_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(change))):
        transfer(replace(NEARBY, **change), MB)
    with pytest.raises(BadInput, match="transfer_bytes"):
        transfer(NEARBY, 0)


def test_transfer_full_link() -> None:
    found = transfer(NEARBY, 32 * MIB)
    assert found.bound == LINK
    assert found.steady_bytes_s == pytest.approx(line_goodput_bytes_s(100), rel=0.001)
    assert found.took_s == pytest.approx(32 * MIB / found.goodput_bytes_s, rel=0.001)


@pytest.mark.parametrize(
    ("change", "bounds"),
    [
        ({"rcvbuf_bytes": 64 * KIB}, {RECEIVE_WINDOW}),
        ({"sndbuf_bytes": 64 * KIB}, {SEND_BUFFER, WAKE_UP}),
        ({"rtt_ms": 300.0}, {SLOW_START}),
    ],
)
def test_transfer_bound(change: dict[str, Any], bounds: set[str]) -> None:
    found = transfer(replace(NEARBY, **change), 2 * MB)
    assert found.bound in bounds
    assert found.steady_bytes_s < 0.9 * line_goodput_bytes_s(100)
    assert sum(found.waits.values()) > 0.1
    limits = {limit.name: limit for limit in found.bounds}
    assert limits[LINK].bytes_s == line_goodput_bytes_s(100)
    assert all(limit.function.endswith("()") for limit in limits.values())


def test_transfer_receive_window() -> None:
    # include/net/tcp.h tcp_win_from_space() of 6.1: half of the buffer, less one segment of
    # 1448 bytes, one window per round trip. Only whole segments are sent into it.
    fixed = replace(NEARBY, kernel="6.1", rcvbuf_bytes=32 * KIB, rcvbuf_locked=True)
    window = (16 * KIB - 1448) // 1448 * 1448
    found = transfer(fixed, 2 * MB)
    assert found.steady_bytes_s == pytest.approx(window / 0.010, rel=0.02)


def test_transfer_held_partial_segment() -> None:
    # net/ipv4/tcp.c tcp_sendmsg_locked(): the tail of the queue is filled up without a look at the
    # memory. Of writes that are no multiple of the MSS Nagle always leaves such a tail.
    small = replace(NEARBY, rtt_ms=100, sndbuf_bytes=32 * KIB, write_bytes=16 * KIB)
    held, sent = (transfer(replace(small, nodelay=one), 4 * MB) for one in (False, True))
    whole = transfer(replace(small, write_bytes=16 * 1448), 4 * MB)
    assert held.steady_bytes_s > 4 * sent.steady_bytes_s
    assert held.steady_bytes_s > 4 * whole.steady_bytes_s


def test_transfer_kernels() -> None:
    # By default 6.1 is limited by half of 6 MiB of receive buffer. From 6.6 on more of it becomes
    # window, so that the 4 MiB of send buffer limit 6.12 as well as 7.2.
    far = Flow(rate_mbit=1000, rtt_ms=200, kernel="6.1")
    steady = {
        kernel: transfer(replace(far, kernel=kernel), 100 * MB).steady_bytes_s
        for kernel in ("6.1", "6.12", "7.2")
    }
    assert steady["6.1"] < 0.9 * steady["6.12"]
    assert steady["7.2"] == pytest.approx(steady["6.12"], rel=0.02)


@pytest.mark.parametrize("writes_per_wake", [0, 10])
def test_simulation_send_buffer(writes_per_wake: int) -> None:
    # include/net/sock.h sk_stream_memory_free(): a packet is begun below the limit, and ends above.
    small = replace(NEARBY, rtt_ms=50, sndbuf_bytes=256 * KIB, write_bytes=1448, nodelay=True)
    simulation = Simulation(replace(small, writes_per_wake=writes_per_wake), MB)
    simulation.run()
    assert 128 * KIB < simulation.sender.queued <= 256 * KIB + 1448 + 960


FLOWS = (
    Flow(rate_mbit=100.0, rtt_ms=40.0, kernel="6.1"),
    Flow(rate_mbit=33.3, rtt_ms=7.1, kernel="7.2", sndbuf_bytes=65_536, sndbuf_locked=True),
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of kept answers of a new user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _forget()
    yield tmp_path / "labs" / "answers" / f"{DIGEST}.jsonl"
    _forget()


def _forget() -> None:
    """As in a new process."""
    transfer.cache_clear()
    kept_answers._known.cache_clear()


def refused() -> str:
    raise AssertionError("simulated again")


@pytest.mark.parametrize(
    ("flow", "transfer_bytes"), [(FLOWS[0], 2_000_000), (FLOWS[1], 2_000_000), (FLOWS[0], 1000)]
)
def test_transfer_reads_back_what_was_simulated(
    file: Path, monkeypatch: pytest.MonkeyPatch, flow: Flow, transfer_bytes: int
) -> None:
    now = simulated(flow, transfer_bytes)
    assert bool(now.cannot_say) == (transfer_bytes == 1000)
    assert transfer(flow, transfer_bytes) == now
    assert file.stat().st_mode & 0o777 == 0o600
    _forget()
    monkeypatch.setattr(bulk, "simulated", lambda *_: refused())
    assert transfer(flow, transfer_bytes) == now  # to the last digit
    with pytest.raises(AssertionError, match="simulated again"):
        transfer(flow, transfer_bytes + 1)
