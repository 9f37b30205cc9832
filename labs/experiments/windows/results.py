"""The results of a run of the lab `windows`: memory, queue, window, drops, and prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy
from pandas import DataFrame, Series

from labs.drive.result_columns import Note, column, part
from labs.experiments.windows.conditions import PATCHED
from labs.experiments.windows.settings import ACCEPT, LISTEN, LOOPBACK, NEVER, Settings
from labs.guest.units import KIB, SECOND_NS
from labs.read.claims.ledger import article_beside
from labs.read.display.format import SHOWN_DIGITS
from labs.read.parse.socket_samples import SocketSample
from labs.read.readings import receive_queue as queue
from labs.read.readings.receive_queue import RECEIVER, samples_of
from labs.read.readings.run_results import (
    RunResults,
    from_run,
    hidden,
    hidden_column,
    settings_as,
    size,
)
from labs.read.runs.run import Run
from labs.read.theory.kernels import RATIO, WHOLE_FIRST_WINDOW
from labs.read.theory.receiver import LARGEST_UNSCALED, LISTENS, Setup
from labs.read.theory.receiver_steps import Read

article = partial(article_beside, __file__)
PROGRAM_S = 5.0
"""How long the author's program takes."""
TOOTH_PACKETS = 2
"""A sawtooth has several teeth, each of them higher than one packet."""
KEPT_TABLES = 64
SPACING_NS = 32_000
"""The time that a packet takes on the loopback path (SPACING in
labs/experiments/windows/paths.py)."""
HZ = 250
"""The tick rate of Debian's kernels; used if a run does not record its own."""


def first(values: Series[int]) -> int | None:
    """The first of some values; None if it is missing, or if there is none."""
    return None if values.head(1).dropna().empty else int(values.iloc[0])


def total(values: Series[Any]) -> int:
    """The sum of some values."""
    return int(values.sum())


def listed(sizes: Iterable[int]) -> str | None:
    """Sizes in words; None without any."""
    return ", ".join(f"{int(size):,}" for size in sizes) or None


def count(values: Sequence[Any]) -> int:
    """How many values there are."""
    return len(values)


def shortened(digest: str) -> str:
    """The first digits of a digest."""
    return digest[:SHOWN_DIGITS]


def granted(run: Run) -> Iterator[Note]:
    """A note with the reason if the buffer is not twice the requested size."""
    for buffer in run.buffers:
        wanted, got = buffer.requested_bytes, buffer.granted_bytes
        if wanted and got and got != 2 * wanted:
            why = "net.core.rmem_max" if got < 2 * wanted else "the kernel's minimum, one packet"
            yield Note("granted", f"SO_RCVBUF of {wanted:,} bytes gave {got:,}, because of {why}")


@lru_cache(maxsize=KEPT_TABLES)
def packets(run: Run) -> DataFrame:
    """One row per data segment that arrived, with the columns of `receive_queue.observed` and of
    `receive_queue.simulated`.

    On machines the device's driver determines the memory of a segment, which is taken from the
    first sample. In virtual time the kernel's own rule determines it.
    """
    is_loopback = run.settings_as(Settings).path == LOOPBACK
    segments, table = queue.observed(run, return_ns(run))
    setup = setup_of(run, segments)
    head = None if run.is_virtual else queue.head_bytes(table)
    until_ns = int(segments["time_ns"].max()) - return_ns(run)
    predicted = queue.simulated(
        table, setup, reads_of(run), until_ns, head=head, on_loopback=is_loopback
    )
    return table.join(predicted)


def return_ns(run: Run) -> int:
    """How much later the receiver's ACKs appear in the capture than the receiver sent them.

    Packets of the loopback device are captured where they arrive, after netem.
    """
    if run.settings_as(Settings).path != LOOPBACK:
        return 0
    return round(run.condition_asked.link.delay_ms / 2 * 1e6) + SPACING_NS


def setup_of(run: Run, segments: DataFrame) -> Setup:
    """The receiver, which listens: its settings, and what its SYN-ACK announced."""
    settings = run.settings_as(Settings)
    syn = queue.syn_of_receiver(segments)
    granted = samples_of(run)[0].rcvbuf
    rmem = [int(word) for word in run.sysctl(RECEIVER, "net.ipv4.tcp_rmem").split()]
    set_on = settings.set_rcvbuf if settings.rcvbuf_kib else ""
    return Setup(
        kernel=run.kernel.release,
        role=LISTENS,
        rcvbuf_bytes=granted if set_on == LISTEN else rmem[1],
        locked=set_on == LISTEN,
        accept_rcvbuf_bytes=granted if set_on == ACCEPT else None,
        mss_bytes=int(syn["mss"].iloc[0]),
        timestamps=bool((syn["tsval"] >= 0).iloc[0]),
        adv_win_scale=int(run.sysctl(RECEIVER, "net.ipv4.tcp_adv_win_scale")),
        rmem_max_bytes=rmem[2],
        core_max_bytes=int(run.sysctl(RECEIVER, "net.core.rmem_max")),
        initrwnd_segments=settings.initrwnd,
        quickack=settings.quickack,
        window_clamp_bytes=(settings.window_clamp_kib or 0) * KIB,
        rtt_ms=run.condition_asked.link.delay_ms,
        hz=run.kernel.hz or HZ,
    )


def reads_of(run: Run) -> list[Read]:
    """The program's reads, which begin at its first sample, right after accepting."""
    reads, taken = run.settings_as(Settings).reads, samples_of(run)
    if not reads.read_bytes:
        return []
    begin_ns = taken[0].time_ns + reads.after_ms * 1_000_000
    end_ns = taken[-1].time_ns + SECOND_NS
    times_ns = range(begin_ns, end_ns + 1, reads.every_us * 1000)
    return [Read(at_ns, reads.read_bytes) for at_ns in times_ns]


class Results(RunResults):
    """The figures of one run; None for those that it does not have."""

    settings = settings_as(Settings)
    table = from_run(packets)
    samples = from_run(samples_of)
    offered = from_run(queue.syn_ack)

    @property
    def last(self) -> SocketSample:
        return self.samples[-1]

    @cached_property
    def most(self) -> Mapping[str, float]:
        """The largest values over the samples, one per packet; none if the receiver took only the
        first and the last."""
        if not self.settings.sampled:
            return {}
        sizes = [(each.rmem_alloc, each.rcvbuf, each.rcvq_bytes) for each in self.samples]
        used, buffer, queued = numpy.transpose(sizes)
        return {
            "used": used.max(),
            "above": (used - buffer).clip(0).max(),
            "payload_pct": (100 * (queued / buffer)).max(),
        }

    @cached_property
    def rounds(self) -> DataFrame:
        """One row per round trip."""
        return queue.by_round_trip(self.table, self.run.link.asked.delay_ms)

    @cached_property
    def deviations(self) -> Series[int]:
        """How far the predicted window is from the one on the wire, in bytes."""
        return (self.table["predicted_window_left_bytes"] - self.table["window_left_bytes"]).abs()

    @cached_property
    def edges(self) -> Series[int]:
        """The right edge of the window after each packet."""
        return queue.right_edge(self.table)

    @cached_property
    def metadata(self) -> Series[int]:
        """The memory in use besides payload after each packet, in bytes."""
        return self.table["rmem_bytes"] - self.table["recv_q_bytes"]

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many packets are of each kind; without samples, not those that only samples show."""
        ends = self.table["end"] - 1
        offered = self.edges.cummax().shift(1, fill_value=self.offered.window_bytes)
        kinds = {
            "new": ends > ends.cummax().shift(fill_value=0),
            "unsampled": self.table["rmem_bytes"].isna(),
            "beyond_window": ends > offered,
            "acknowledged": self.table["acked_bytes"].diff() > 0,
        }
        if self.settings.sampled:
            dropped = self.table["dropped"].fillna(0) > 0
            # By the window before the drop: since 6.6 the ACK of a drop takes that window back.
            fits = ends <= self.edges.shift(1)
            kinds |= {"dropped": dropped, "dropped_in_window": dropped & fits}
        return {name: total(packets) for name, packets in kinds.items()}

    @cached_property
    def drops(self) -> DataFrame:
        """The dropped packets, with the state before each."""
        return queue.at_marks(self.table, "dropped")

    @cached_property
    def collapses(self) -> DataFrame:
        """The packets at which the queue is collapsed, with the state before each."""
        return queue.at_marks(self.table, "collapsed")

    @cached_property
    def drop_times(self) -> list[float]:
        """When TCPRcvQDrop grew, in seconds since the first write."""
        written_ns = int(self.table["time_ns"].iloc[0]) - return_ns(self.run)
        times_ns = [sample.time_ns - written_ns for sample in self.samples[1:]]
        drops = [sample.counters.get("TCPRcvQDrop") or 0 for sample in self.samples]
        times_s: list[float] = (numpy.repeat(times_ns, numpy.diff(drops)) / SECOND_NS).tolist()
        return times_s

    @cached_property
    def pause(self) -> tuple[int, int]:
        """The first of the longest series of packets without a window update, and the packet with
        the next update; zeros if there is no update."""
        places = [1, *self.table["packet"][self.edges.diff() > 0].astype(int)]
        rests = [(earlier + 1, later) for earlier, later in pairwise(places)]
        return max(rests, key=lambda rest: rest[1] - rest[0], default=(0, 0))

    @cached_property
    def teeth(self) -> list[int]:
        """The rises of the window left after a fall, in bytes, of at least two packets."""
        steps = [int(step) for step in self.table["window_left_bytes"].diff().dropna() if step]
        least = TOOTH_PACKETS * int(self.table["payload_bytes"].max())
        return [rise for fall, rise in pairwise(steps) if fall < 0 and rise >= least]

    @cached_property
    def batches(self) -> list[int]:
        """The payload of each round trip with data, in bytes."""
        payload = self.rounds["payload_bytes"]
        return payload[payload > 0].tolist()

    skmem_rb = part("last.rcvbuf", "receive buffer (sk_rcvbuf) at the end", unit="bytes")
    skmem_r = part("last.rmem_alloc", "memory in use (sk_rmem_alloc) at the end", unit="bytes")
    skmem_r_max = size("most.used", "largest memory in use", kind=int)
    overshoot_bytes = part(
        "most.above", "largest memory in use above the buffer", unit="bytes", kind=int
    )
    recv_q = part(
        "last.rcvq_bytes", "data queued for the application at the end", unit="bytes", headline=True
    )
    payload_pct = part(
        "most.payload_pct", "largest share of the buffer that is payload", unit="%", kind=float
    )

    @column("memory besides payload per queued packet, at the end", unit="bytes")
    def metadata_bytes(self) -> float | None:
        metadata, queued = self.metadata.dropna(), total(queue.accepted(self.table) > 0)
        if self.settings.reader != NEVER or metadata.empty or not queued:
            return None
        return float(metadata.iloc[-1]) / queued

    first_metadata_bytes = size(
        "metadata", "memory besides payload of the first packet", kind=first
    )
    overhead_bytes = size(
        queue.overhead_bytes, "least memory besides payload of any packet on this kernel"
    )
    packets = part("table.shape.0", "data packets that arrived", kind=int)
    first_flight_packets = hidden(
        "counts.new", "packets with new data: no retransmissions, no probes"
    )
    unsampled_packets = part("counts.unsampled", "data packets without a sample of their own")
    rcv_q_drop = part(
        "last.counters.TCPRcvQDrop", "packets dropped for lack of memory (TCPRcvQDrop)"
    )
    dropped = hidden("counts.dropped", "packets dropped, by any counter")
    dropped_in_window = part(
        "counts.dropped_in_window", "packets dropped although the window had room for them"
    )
    beyond_window = hidden(
        "counts.beyond_window", "packets sent beyond every window that was offered"
    )
    coalesced = part(
        "last.counters.TCPRcvCoalesce", "packets coalesced with the one before (TCPRcvCoalesce)"
    )
    collapsed = part(
        "last.counters.TCPRcvCollapsed", "buffers freed by collapsing (TCPRcvCollapsed)"
    )
    prunes = hidden("last.counters.PruneCalled", "times the queue was pruned (PruneCalled)")
    first_window_bytes = part("offered.window_bytes", "window of the SYN-ACK", unit="bytes")

    @hidden_column("window of the first ACK of data", unit="bytes")
    def second_window_bytes(self) -> int:
        return int(self.edges.iloc[0] - self.table["acked_bytes"].iloc[0])

    @column("largest window that was offered", unit="bytes")
    def window_max_bytes(self) -> int:
        return max(self.offered.window_bytes, int(self.rounds["window_bytes"].max()))

    window_updates = part("rounds.updates", "times the window's right edge moved", kind=total)
    acks = hidden("counts.acknowledged", "ACKs of the receiver")
    round_trips = part("batches", "round trips in which data was accepted", kind=count)
    rcv_ssthresh = size("last.rcv_ssthresh", "rcv_ssthresh at the end")
    wscale = part("offered.wscale", "window scale of the receiver")
    requested_kib = hidden("settings.rcvbuf_kib", "SO_RCVBUF (0: automatic)", unit="KiB")
    window_clamp_kib = hidden("settings.window_clamp_kib", "TCP_WINDOW_CLAMP", unit="KiB")
    adv_win_scale = hidden("settings.adv_win_scale", "tcp_adv_win_scale")
    mss_bytes = size("settings.mss_bytes", "MSS")
    path = hidden("settings.path", "loopback, or two hosts and a router")
    reader = hidden("settings.reader", "how the application reads")
    fill = hidden("settings.fill", "how the sender writes")

    @column("packets at which the predicted window equals the one on the wire", unit="%")
    def predicted_equal_pct(self) -> float:
        return 100 * total(self.deviations == 0) / len(self.table)

    @hidden_column("largest deviation of the predicted window", unit="bytes")
    def deviation_bytes(self) -> int:
        return int(self.deviations.max())

    earlier_runs = hidden("settings.earlier", "runs before this one in the same network namespace")
    kernel_digest = hidden(
        "run.inputs.kernel.digest", "the first digits of the kernel's digest", kind=shortened
    )

    @hidden_column("memory in use at the end above the buffer", unit="bytes")
    def excess_bytes(self) -> int:
        return self.last.rmem_alloc - self.last.rcvbuf

    window_at_drop_bytes = size(
        "drops.before_window_left_bytes", "the window before the first drop", kind=first
    )
    first_drop = hidden("drops.packet", "the number of the first dropped packet", kind=first)

    @hidden_column("TCPRcvQDrop when the author's program prints it, after 5 s")
    def printed_drops(self) -> int:
        return sum(time_s <= PROGRAM_S for time_s in self.drop_times)

    @hidden_column("the first drop after that", unit="s")
    def next_drop_s(self) -> float | None:
        return next((time_s for time_s in self.drop_times if time_s > PROGRAM_S), None)

    @hidden_column("TCPRcvQDrop as nstat -az prints it: of all runs")
    def total_drops(self) -> int:
        return int(queue.printed_drops(self.run).split()[1])

    @hidden_column("intervals at which the first dropped packet is resent, in s")
    def backoff(self) -> str | None:
        times_s = self.drops["time_s"][self.drops["seq"] == self.drops["seq"].min()]
        return ", ".join(f"{interval_s:.2f}" for interval_s in times_s.diff()[1:]) or None

    first_collapse = hidden(
        "collapses.packet", "the packet at which the queue is first collapsed", kind=first
    )
    collapse_count = hidden("collapses.shape.0", "times that the queue is collapsed", kind=int)

    @hidden_column("collapses at which rcv_ssthresh falls")
    def collapse_falls(self) -> int:
        before = self.collapses["before_rcv_ssthresh_bytes"]
        return total(self.collapses["rcv_ssthresh_bytes"] < before)

    @hidden_column("rcv_ssthresh before and after each collapse, in bytes")
    def collapse_levels(self) -> str | None:
        levels = self.collapses[["before_rcv_ssthresh_bytes", "rcv_ssthresh_bytes"]]
        return ", ".join(map("{:,} to {:,}".format, *levels.to_numpy().T)) or None

    collapse_copied_bytes = size(
        "collapses.recv_q_bytes", "bytes queued at all collapses", kind=total
    )

    @hidden_column("packets coalesced before the first collapse")
    def coalesced_before(self) -> int | None:
        earlier = self.table["packet"] < self.first_collapse
        return None if self.collapses.empty else total(self.table["coalesced"][earlier])

    received_bytes = size("last.bytes_received", "data received")

    @hidden_column("largest window of an ACK, of the free buffer", unit="%")
    def window_share_pct(self) -> float | None:
        if self.unsampled_packets:
            return None
        before = self.table.shift(1)
        shares = self.table["window_left_bytes"] / (before["rcvbuf_bytes"] - before["rmem_bytes"])
        at_first = self.window_max_bytes / self.last.rcvbuf
        return 100 * float(max([at_first, *shares[self.table["acked_bytes"].diff() > 0]]))

    pause_at = hidden("pause.0", "packet at which window updates pause")
    resume_at = hidden("pause.1", "packet at which they resume")
    teeth_count = hidden("teeth", "times that the window falls and rises again", kind=count)
    teeth_bytes = hidden("teeth", "by how much it rises, in bytes", kind=listed)

    @hidden_column("data packets per ACK")
    def packets_per_ack(self) -> float:
        return len(self.table) / max(1, self.counts["acknowledged"])

    @hidden_column("growth of rcv_ssthresh per packet, in full segments")
    def growth_segments(self) -> float:
        """From its first value to its largest; 0 if it does not grow."""
        levels = self.table["rcv_ssthresh_bytes"].astype(float)
        highest = int(levels.argmax())
        growth = float(levels.iloc[highest] - levels.iloc[0])
        return growth / highest / self.settings.mss_bytes if highest else 0.0

    rounds_count = hidden("rounds.shape.0", "all round trips", kind=int)
    first_batch_bytes = size("batches.0", "payload of the first round trip with data")
    batch_bytes = hidden("batches", "payload of each round trip with data, in bytes", kind=listed)

    @hidden_column("each of these round trips has less payload than the one before")
    def batches_shrink(self) -> bool:
        return all(later < earlier for earlier, later in pairwise(self.batches))

    @hidden_column("the window at the end of as many round trips, in bytes")
    def batch_windows(self) -> str | None:
        return listed(self.rounds["window_left_bytes"][: len(self.batches)])

    def lab_notes(self) -> Iterator[Note]:
        """Settings that the kernel ignores or limits."""
        settings, kernel = self.settings, self.run.kernel.release
        if settings.adv_win_scale != 1 and RATIO.holds(kernel):
            yield Note("scale_ignored", f"Linux {kernel} ignores tcp_adv_win_scale")
        limited = settings.initrwnd * settings.mss_bytes > LARGEST_UNSCALED
        limited &= not WHOLE_FIRST_WINDOW.holds(kernel)
        if limited and self.run.condition != PATCHED:
            text = f"Linux {kernel} limits the first window to 64 KiB: initrwnd can only reduce it"
            yield Note("initrwnd_limited", text)
        yield from granted(self.run)
        allowed = self.samples[0].advmss
        if allowed < settings.mss_bytes:
            text = f"the MTU of the path allows segments of {allowed:,} bytes"
            yield Note("mss_limited", f"{text}, not {settings.mss_bytes:,}")
