"""What the model does with losses: selective ACKs, recovery, timeouts, a queue that overflows."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from labs.errors import BadInput
from labs.guest.units import KIB, MB, SECOND_NS
from labs.read.theory import bulk
from labs.read.theory.bdp import line_goodput_bytes_s, mathis_bytes_s
from labs.read.theory.bulk import TOO_FEW, draws, transfer
from labs.read.theory.bulk_flow import RENO, Flow
from labs.read.theory.bulk_interval import interval
from labs.read.theory.bulk_receiver import Block, BulkReceiver
from labs.read.theory.bulk_scoreboard import OPEN, REDUCED
from labs.read.theory.bulk_simulation import Simulation
from labs.read.theory.congestion import Cubic
from labs.read.theory.receiver import CONNECTS, Setup

MEASURED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "fixtures" / "theory" / "losses.json").read_text()
)
"""Runs of the lab `buffers` with random losses (kernels 5.10 to 7.2): which segments that entered
the link were lost, and how many arrived until each second."""
PERFORMED = "labs.read.theory.bulk_simulation.performed_as_c"
MSS = 1448
PATH = Flow(rate_mbit=20, rtt_ms=40, kernel="6.12", offloads=False)
WHOLE = replace(PATH, rcvbuf_bytes=256 * KIB, rcvbuf_locked=True)


def dropping(flow: Flow, transfer_bytes: int, lost: set[int]) -> Simulation:
    """A flow that loses the n-th segments that enter the link, after its run."""
    simulation = Simulation(flow, transfer_bytes, drops=True)
    entered = 0

    def takes() -> bool:
        nonlocal entered
        entered += 1
        return entered not in lost

    simulation.link._takes = takes  # type: ignore[method-assign]
    simulation.run()
    return simulation


@pytest.mark.parametrize("measured", MEASURED, ids=lambda one: one["kernel"] + one["condition"])
def test_measured_losses(measured: dict[str, Any]) -> None:
    # With the segments lost that a run lost, the flow takes the run's course: after 19 s within
    # 1.5 %, and at every second within 5 %. It differs where an ACK is delayed by a millisecond.
    flow = replace(
        PATH,
        **{name: measured[name] for name in ("kernel", "rate_mbit", "rtt_ms", "congestion")},
        header_bytes=measured["header_bytes"],
        read_bytes=64 * KIB,
        reads_whole=True,
        limit_s=20,
    )
    simulation = dropping(flow, 1000 * MB, set(measured["lost"]))
    first_ns = simulation.times_ns[0]
    seconds = range(1, len(measured["segments_per_second"]) + 1)
    arrived = [bisect_left(simulation.times_ns, first_ns + one * SECOND_NS) for one in seconds]
    assert arrived == pytest.approx(measured["segments_per_second"], rel=0.05)
    assert arrived[-1] == pytest.approx(measured["segments_per_second"][-1], rel=0.015)


@pytest.mark.parametrize(("congestion", "kept"), [("cubic", 717 / 1024), (RENO, 1 / 2)])
def test_one_loss(congestion: str, kept: float) -> None:
    # RFC 9438 and RFC 5681: what remains of the window after a loss. The window before it is
    # limited by the receive buffer, at most 256 KiB.
    windows: list[tuple[int, int]] = []
    simulation = Simulation(replace(WHOLE, congestion=congestion), 3 * MB, drops=True)
    threshold = simulation.sender.control.threshold

    def noted() -> int:
        before = simulation.sender.control.cwnd
        windows.append((before, threshold()))
        return windows[-1][1]

    simulation.sender.control.threshold = noted  # type: ignore[method-assign]
    entered = 0

    def takes() -> bool:
        nonlocal entered
        entered += 1
        return entered != 600

    simulation.link._takes = takes  # type: ignore[method-assign]
    simulation.run()
    assert len(windows) == 1
    before, after = windows[0]
    assert after == int(before * kept)
    assert simulation.sender.timeouts == 0
    # It took a round trip to notice the loss and one to repair it; nothing stopped meanwhile.
    gaps = [b - a for a, b in zip(simulation.times_ns, simulation.times_ns[1:], strict=False)]
    assert max(gaps[300:]) < 2 * 40e6


def test_last_segments_lost_are_probed() -> None:
    # net/ipv4/tcp_output.c tcp_schedule_loss_probe(): two round trips after the last ACK, plus 2 ms
    # in ticks of 4 ms, the last segment is sent again, and arrives after the whole delay. A timeout
    # would take 240 ms at least, and that delay.
    segments = 100
    flow = replace(WHOLE, header_bytes=MSS)
    simulation = dropping(flow, (segments - 1) * MSS, {segments - 1, segments})
    gaps = [b - a for a, b in zip(simulation.times_ns, simulation.times_ns[1:], strict=False)]
    assert simulation.sender.timeouts == 0
    assert 120 < max(gaps) / 1e6 < 140


def test_lost_retransmission_times_out() -> None:
    # The whole flight is lost, and what is sent again too: only the timer is left.
    segments = 10
    flow = replace(WHOLE, nodelay=True, write_bytes=segments * MSS, writes_per_wake=0)
    simulation = dropping(flow, segments * MSS, set(range(1, segments + 3)))
    assert simulation.receiver.nxt == segments * MSS
    # RFC 6298: the second timeout is twice as long. The least is 200 ms, plus the RTT of 40 ms.
    assert simulation.times_ns[-1] / 1e9 > 0.7


def test_timeout_begins_anew() -> None:
    control = Cubic("6.12")
    control.cwnd = 100
    assert control.threshold() == 70
    assert control.last_max == 100
    control.cwnd = 90
    # Fast convergence: the next maximum is (1 + beta) / 2 of the window.
    assert (control.threshold(), control.last_max) == (63, 90 * (1024 + 717) // 2048)
    control.timed_out()
    assert control.last_max == 0


def test_every_byte_arrives_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PERFORMED, lambda *_: False)  # in C, what is in flight is not copied back
    flow = replace(WHOLE, loss_pct=3)
    for seed in range(5):
        simulation = Simulation(flow, MB, seed=seed, drops=True)
        simulation.run()
        assert simulation.link.dropped > 5
        assert simulation.had_bytes[-1] == simulation.receiver.nxt
        sender = simulation.sender
        assert 0 <= sender.left <= sender.packets
        assert sender.packets == sum(one.segments for one in sender.flight)


class Sends:
    """What sends a receiver's ACKs, and notes when."""

    receiver: BulkReceiver

    def __init__(self) -> None:
        self.sent: list[int] = []

    def acknowledge(self, now_ns: int) -> None:
        self.sent.append(now_ns)
        self.receiver.acknowledge()


def ranges(blocks: Iterable[Block]) -> list[tuple[int, int]]:
    return [(one.begin, one.end) for one in blocks]


def received(*begins: int) -> tuple[BulkReceiver, list[int]]:
    """A receiver to which these segments came, by their numbers, one every 100 us; and the times
    at which it sent ACKs."""
    network = Sends()
    setup = Setup(
        kernel="6.12",
        role=CONNECTS,
        mss_bytes=MSS + 12,
        timestamps=True,
        rcvbuf_bytes=MB,
        locked=True,
        rmem_max_bytes=6_291_456,
        core_max_bytes=MB,
        rtt_ms=40,
    )
    receiver = network.receiver = BulkReceiver(setup, network, now_ns=0)
    # No quick ACKs: the connection is not new, and its window is open.
    receiver.ato, receiver.ssthresh = 10, receiver.clamp
    for place, begin in enumerate(begins):
        now_ns = 100_000 * (place + 1)
        if receiver.segment(now_ns, begin * MSS, MSS, MSS, False, 0):
            network.acknowledge(now_ns)
    return receiver, network.sent


def test_blocks_newest_first() -> None:
    # RFC 2018, section 4: the first block is that of the segment that triggered the ACK.
    receiver, _ = received(0, 2, 4, 6, 3)
    assert ranges(receiver.blocks) == [(2 * MSS, 5 * MSS), (6 * MSS, 7 * MSS)]
    assert receiver.nxt == MSS
    receiver, _ = received(0, 2, 3, 1)
    assert receiver.nxt == 4 * MSS
    assert not receiver.blocks and not receiver.waiting


def test_four_blocks_are_kept_and_three_sent() -> None:
    receiver, _ = received(0, 2, 4, 6, 8, 10)
    assert len(receiver.blocks) == 4
    receiver.report()
    assert ranges(receiver.reported) == [(place * MSS, (place + 1) * MSS) for place in (10, 8, 6)]


def test_duplicates_are_compressed() -> None:
    # net/ipv4/tcp_input.c __tcp_ack_snd_check(): three at once, then one ACK per millisecond, until
    # the sequence number that is acknowledged changes, or the gap is filled.
    receiver, sent = received(*range(2, 9), 0, 1)
    assert sent == [100_000, 200_000, 300_000, 800_000, 900_000]
    assert receiver.nxt == 9 * MSS


def test_segment_that_came_before() -> None:
    # RFC 2883: the first block of the ACK reports it.
    receiver, _ = received(0, 1)
    assert receiver.segment(10**6, 0, MSS, MSS, False, 0)
    receiver.report()
    assert ranges(receiver.reported)[0] == (0, MSS)


@pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    "path",
    [
        {"loss_pct": 0.5},
        {"loss_pct": 12.0, "queue_packets": 12, "congestion": RENO},
        {"queue_packets": 60, "kernel": "5.10", "header_bytes": 238},
        {"queue_packets": 12, "offloads": True, "kernel": "7.2"},
    ],
    ids=lambda path: " ".join(path),
)
def test_compiled_losses_are_those_of_python(
    path: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = replace(PATH, **path)
    compiled, python = (Simulation(flow, 2 * MB, seed=7, drops=True) for _ in range(2))
    compiled.run()
    assert not compiled.sender.flight  # deques are not copied back, so C performed it
    monkeypatch.setattr(PERFORMED, lambda *_: False)
    python.run()
    assert python.sender.flight
    assert compiled.times_ns == python.times_ns and compiled.had_bytes == python.had_bytes
    assert compiled.link.idle_ns == python.link.idle_ns
    assert python.link.dropped > 0
    for name in ("dropped", "most_queued", "free_ns"):
        assert getattr(compiled.link, name) == getattr(python.link, name)
    for name in ("rto_ns", "timeouts", "lost_ever", "srtt_us8", "state", "high_seq"):
        assert getattr(compiled.sender, name) == getattr(python.sender, name)


def test_queue_overflows() -> None:
    # The sawtooth of one flow: a queue of half a BDP keeps the link full with CUBIC, whose window
    # falls to 0.7 of 1.5 BDP; a queue of a tenth does not.
    bdp = round(20e6 / 8 * 0.04 / 1514)
    full = transfer(replace(PATH, queue_packets=bdp + bdp // 2), 30 * MB)
    small = transfer(replace(PATH, queue_packets=bdp // 2), 30 * MB)
    unlimited = transfer(PATH, 30 * MB)
    line = line_goodput_bytes_s(20)
    assert full.steady_bytes_s == pytest.approx(line, rel=0.02)
    assert small.steady_bytes_s < 0.75 * line
    assert unlimited.steady_bytes_s == pytest.approx(line, rel=0.001)


def test_queue_without_overflow_changes_nothing() -> None:
    assert transfer(replace(WHOLE, queue_packets=5000), 2 * MB) == transfer(WHOLE, 2 * MB)


def test_own_queue_refuses() -> None:
    # net/ipv4/tcp_output.c tcp_transmit_skb(): what the sender's own queue refuses is not lost,
    # but reduces the window.
    flow = replace(PATH, offloads=True, queue_packets=12)
    simulation = Simulation(flow, 4 * MB, drops=True)
    simulation.run()
    assert simulation.link.dropped > 0
    assert simulation.sender.lost_ever == 0
    assert simulation.sender.state in (OPEN, REDUCED)
    assert simulation.receiver.nxt >= 4 * MB


def test_a_part_of_a_packet_that_was_lost_again() -> None:
    # Such a packet is no longer in the order of retransmissions when its first part is sent.
    flow = replace(PATH, rate_mbit=100, rtt_ms=2, loss_pct=5)
    assert transfer(flow, MB).goodput_bytes_s > 0


def test_random_losses() -> None:
    # Mathis holds within a few per cent for many losses; 20 draws of some 60 losses each vary by
    # a quarter.
    flow = replace(PATH, rate_mbit=100, loss_pct=1, limit_s=20, queue_packets=10_000)
    found, wide = transfer(flow, 1000 * MB), interval(flow, 1000 * MB)
    assert wide is not None
    assert len(draws(flow, 1000 * MB)) == 20
    assert found.goodput_bytes_s == pytest.approx(mathis_bytes_s(1, 40), rel=0.25)
    assert wide.goodput_bytes_s[0] < found.goodput_bytes_s < wide.goodput_bytes_s[1]
    assert 0.1 < wide.width < 0.7
    assert transfer(flow, 1000 * MB) == found


def test_losses_of_a_long_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first part is simulated, and the rest has the rate of its last third. The reference is the
    # same transfer as a whole, of some 55 losses. 15 %: a part's last third has only ten.
    flow = replace(PATH, rate_mbit=100, loss_pct=2)
    whole = transfer(flow, 4 * MB)
    monkeypatch.setattr(bulk, "MOST_PACKETS", 2000)
    monkeypatch.setattr(bulk, "PART_PACKETS", 1400)
    found = bulk._median(bulk._drawn(flow, 4 * MB))
    assert found.goodput_bytes_s == pytest.approx(whole.goodput_bytes_s, rel=0.15)
    assert found != whole


def test_losses_until_a_time_limit() -> None:
    # 90 s at 300 Mbit/s, 80 ms and 0.1 %, of which the default buffers of 6.1 and larger ones
    # reached 0.623 and 0.795 MiB/s over all. 5 % of the file arrive, so that nothing is left to
    # compute after the part that is simulated.
    flow = replace(PATH, rate_mbit=300, rtt_ms=80, kernel="6.1", loss_pct=0.1, limit_s=90)
    wide = interval(flow, 1 << 30)
    assert wide is not None
    low, high = (one / (1 << 20) for one in wide.goodput_bytes_s)
    mean = transfer(flow, 1 << 30).goodput_bytes_s / (1 << 20)
    assert mean == pytest.approx(0.623, rel=0.15) and mean == pytest.approx(0.795, rel=0.15)
    assert 0.5 < low < mean < 0.795 < high < 1


def test_losses_too_few() -> None:
    flow = replace(PATH, rate_mbit=1000, loss_pct=0.001)
    assert transfer(flow, 1000 * MB).cannot_say == TOO_FEW
    assert interval(flow, 1000 * MB) is None


@pytest.mark.parametrize(
    ("change", "word"),
    [({"congestion": "bbr"}, "cubic, reno"), ({"loss_pct": 1.0, "offloads": True}, "offloads")],
)
def test_losses_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(BadInput, match=word):
        transfer(replace(PATH, **change), MB)
