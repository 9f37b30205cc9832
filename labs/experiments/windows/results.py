"""The results of a run of the lab `windows`: memory, queue, window, drops, and prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache, partial
from itertools import pairwise

import pandas
from pandas import DataFrame, Series

from labs.drive.result_columns import Note, column, part
from labs.drive.units import KIB, SECOND_NS
from labs.experiments.windows.conditions import PATCHED
from labs.experiments.windows.settings import ACCEPT, LISTEN, LOOPBACK, NEVER, Settings
from labs.read.claims.ledger import article_beside
from labs.read.parse.socket_samples import SocketSample
from labs.read.readings import receive_queue as queue
from labs.read.readings.instruments import capture_losses
from labs.read.readings.receive_queue import RECEIVER, Collapse, SynAck, samples_of
from labs.read.runs.run import Run
from labs.read.theory.receive_window import Setup
from labs.read.theory.receive_window_kernels import rules
from labs.read.theory.receive_window_steps import Read
from labs.read.theory.windows import RATIO_SINCE, series

article = partial(article_beside, __file__)
hidden = partial(part, hidden=True)
costly = partial(part, hidden=True, costly=True)
PROGRAM_S = 5.0
"""How long the author's program takes."""
DIGITS = 12
"""Of a digest."""
VIRTUAL = "virtual"
TOOTH_PACKETS = 2
"""A sawtooth has several teeth, each of them higher than one packet."""
KEPT_TABLES = 64
SPACING_NS = 32_000
"""The time that a packet takes on the loopback path (SPACING in
labs/experiments/windows/paths.py)."""
DEFAULT_SCALE = 1
"""net.ipv4.tcp_adv_win_scale."""
HZ = 250
"""The tick rate of Debian's kernels; used if a run does not record its own."""


class Results:
    """The figures of one run; None for those that it does not have."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def settings(self) -> Settings:
        return self.run.settings_as(Settings)

    @cached_property
    def table(self) -> DataFrame:
        """One row per data segment."""
        return packets(self.run)

    @cached_property
    def samples(self) -> tuple[SocketSample, ...]:
        """The samples of the receiver's socket."""
        return samples_of(self.run)

    @property
    def last(self) -> SocketSample:
        return self.samples[-1]

    @property
    def each(self) -> tuple[SocketSample, ...]:
        """The samples, one per packet; none if the receiver took only the first and the last."""
        return self.samples if self.settings.sampled else ()

    @cached_property
    def offered(self) -> SynAck:
        return queue.syn_ack(self.run)

    @cached_property
    def rounds(self) -> DataFrame:
        """One row per round trip."""
        return queue.by_round_trip(self.table, self.run.link.asked.delay_ms)

    @cached_property
    def deviations(self) -> Series[int]:
        """How far the predicted window is from the one on the wire, in bytes."""
        return (self.table["predicted_window_left_bytes"] - self.table["window_left_bytes"]).abs()

    skmem_rb = part("last.rcvbuf", "receive buffer (sk_rcvbuf) at the end", unit="bytes")
    skmem_r = part("last.rmem_alloc", "memory in use (sk_rmem_alloc) at the end", unit="bytes")

    @column("largest memory in use", unit="bytes", hidden=True)
    def skmem_r_max(self) -> int | None:
        return max((sample.rmem_alloc for sample in self.each), default=None)

    @column("largest memory in use above the buffer", unit="bytes")
    def overshoot_bytes(self) -> int | None:
        above = (max(0, sample.rmem_alloc - sample.rcvbuf) for sample in self.each)
        return max(above, default=None)

    recv_q = part(
        "last.rcvq_bytes", "data queued for the application at the end", unit="bytes", headline=True
    )

    @column("largest share of the buffer that is payload", unit="%")
    def payload_pct(self) -> float | None:
        return max(
            (100 * (sample.rcvq_bytes / sample.rcvbuf) for sample in self.each), default=None
        )

    @column("memory besides payload per queued packet, at the end", unit="bytes")
    def metadata_bytes(self) -> float | None:
        sampled = self.table[self.table["rmem_bytes"].notna()]
        queued = int((queue.accepted(self.table) > 0).sum())
        if self.settings.reader != NEVER or sampled.empty or not queued:
            return None
        return float((sampled["rmem_bytes"] - sampled["recv_q_bytes"]).iloc[-1]) / queued

    @column("memory besides payload of the first packet", unit="bytes", hidden=True)
    def first_metadata_bytes(self) -> int | None:
        metadata = (self.table["rmem_bytes"] - self.table["recv_q_bytes"]).iloc[0]
        return None if pandas.isna(metadata) else int(metadata)

    overhead_bytes = hidden(
        queue.overhead_bytes,
        "least memory besides payload of any packet on this kernel",
        unit="bytes",
    )

    packets = part("table.shape.0", "data packets that arrived", kind=int)

    @column("packets with new data: no retransmissions, no probes", hidden=True)
    def first_flight_packets(self) -> int | None:
        return int((self.ends > self.ends.cummax().shift(fill_value=0)).sum())

    @column("data packets without a sample of their own")
    def unsampled_packets(self) -> int | None:
        return int(self.table["rmem_bytes"].isna().sum())

    rcv_q_drop = part(
        "last.counters.TCPRcvQDrop", "packets dropped for lack of memory (TCPRcvQDrop)"
    )

    @column("packets dropped, by any counter", hidden=True)
    def dropped(self) -> int | None:
        return len(self.drops) if self.settings.sampled else None

    @column("packets dropped although the window had room for them")
    def dropped_in_window(self) -> int | None:
        """By the window before the drop: since 6.6 the ACK of a drop takes that window back."""
        if not self.settings.sampled:
            return None
        return int((self.ends <= self.edges.shift(1))[self.drops.index].sum())

    @column("packets sent beyond every window that was offered", hidden=True)
    def beyond_window(self) -> int | None:
        offered = self.edges.cummax().shift(1, fill_value=self.offered.window_bytes)
        return int((self.ends > offered).sum())

    coalesced = part(
        "last.counters.TCPRcvCoalesce", "packets coalesced with the one before (TCPRcvCoalesce)"
    )
    collapsed = part(
        "last.counters.TCPRcvCollapsed", "buffers freed by collapsing (TCPRcvCollapsed)"
    )
    prunes = hidden("last.counters.PruneCalled", "times the queue was pruned (PruneCalled)")
    first_window_bytes = part("offered.window_bytes", "window of the SYN-ACK", unit="bytes")

    @column("window of the first ACK of data", unit="bytes", hidden=True)
    def second_window_bytes(self) -> int | None:
        return int(self.edges.iloc[0] - self.table["acked_bytes"].iloc[0])

    @column("largest window that was offered", unit="bytes")
    def window_max_bytes(self) -> int | None:
        return max(self.offered.window_bytes, int(self.rounds["window_bytes"].max()))

    @column("times the window's right edge moved")
    def window_updates(self) -> int | None:
        return int(self.rounds["updates"].sum())

    @column("ACKs of the receiver", hidden=True)
    def acks(self) -> int | None:
        return int((self.table["acked_bytes"].diff() > 0).sum())

    @column("round trips in which data was accepted")
    def round_trips(self) -> int | None:
        return int((self.rounds["payload_bytes"] > 0).sum())

    rcv_ssthresh = hidden("last.rcv_ssthresh", "rcv_ssthresh at the end", unit="bytes")
    wscale = part("offered.wscale", "window scale of the receiver")
    requested_kib = hidden("settings.rcvbuf_kib", "SO_RCVBUF (0: automatic)", unit="KiB")
    window_clamp_kib = hidden("settings.window_clamp_kib", "TCP_WINDOW_CLAMP", unit="KiB")
    adv_win_scale = hidden("settings.adv_win_scale", "tcp_adv_win_scale")
    mss_bytes = hidden("settings.mss_bytes", "MSS", unit="bytes")
    path = hidden("settings.path", "loopback, or two hosts and a router")
    reader = hidden("settings.reader", "how the application reads")
    fill = hidden("settings.fill", "how the sender writes")

    @column("packets at which the predicted window equals the one on the wire", unit="%")
    def predicted_equal_pct(self) -> float | None:
        return 100 * int((self.deviations == 0).sum()) / len(self.table)

    @column("largest deviation of the predicted window", unit="bytes", hidden=True)
    def deviation_bytes(self) -> int | None:
        return int(self.deviations.max())

    @cached_property
    def ends(self) -> Series[int]:
        """The last byte of each packet."""
        return self.table["seq"] + self.table["payload_bytes"] - 1

    @cached_property
    def edges(self) -> Series[int]:
        """The right edge of the window after each packet."""
        return queue.right_edge(self.table)

    @cached_property
    def collapses(self) -> tuple[Collapse, ...]:
        return queue.collapses(self.table)

    @cached_property
    def drops(self) -> DataFrame:
        """The dropped packets."""
        return self.table[self.table["dropped"].fillna(0) > 0]

    @cached_property
    def drop_times(self) -> list[float]:
        """When TCPRcvQDrop grew, in seconds since the first write."""
        written_ns = int(self.table["time_ns"].iloc[0]) - return_ns(self.run)
        drops = [sample.counters.get("TCPRcvQDrop") or 0 for sample in self.samples]
        return [
            (sample.time_ns - written_ns) / SECOND_NS
            for sample, (before, after) in zip(self.samples[1:], pairwise(drops), strict=True)
            for _ in range(after - before)
        ]

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
    def batches(self) -> DataFrame:
        """The round trips with data."""
        return self.rounds[self.rounds["payload_bytes"] > 0]

    earlier_runs = hidden("settings.earlier", "runs before this one in the same network namespace")

    @column("the first digits of the kernel's digest", hidden=True)
    def kernel_digest(self) -> str | None:
        digest = (self.run.inputs.get("kernel") or {}).get("digest")
        return digest and str(digest)[:DIGITS]

    @column("memory in use at the end above the buffer", unit="bytes", hidden=True)
    def excess_bytes(self) -> int | None:
        return self.last.rmem_alloc - self.last.rcvbuf

    @column("the window before the first drop", unit="bytes", hidden=True, costly=True)
    def window_at_drop_bytes(self) -> int | None:
        if self.drops.empty:
            return None
        return int(self.table.loc[max(0, self.drops.index[0] - 1)]["window_left_bytes"])

    @column("the number of the first dropped packet", hidden=True, costly=True)
    def first_drop(self) -> int | None:
        return None if self.drops.empty else int(self.drops["packet"].iloc[0])

    @column("TCPRcvQDrop when the author's program prints it, after 5 s", hidden=True, costly=True)
    def printed_drops(self) -> int | None:
        return sum(time_s <= PROGRAM_S for time_s in self.drop_times)

    @column("the first drop after that", unit="s", hidden=True, costly=True)
    def next_drop_s(self) -> float | None:
        return next((time_s for time_s in self.drop_times if time_s > PROGRAM_S), None)

    @column("TCPRcvQDrop as nstat -az prints it: of all runs", hidden=True, costly=True)
    def total_drops(self) -> int | None:
        return int(queue.printed_drops(self.run).split()[1])

    @column("intervals at which the first dropped packet is resent, in s", hidden=True, costly=True)
    def backoff(self) -> str | None:
        first = self.drops[self.drops["seq"] == self.drops["seq"].min()]["time_s"].tolist()
        return ", ".join(f"{later - time:.2f}" for time, later in pairwise(first)) or None

    first_collapse = costly(
        "collapses.0.packet", "the packet at which the queue is first collapsed"
    )

    @column("times that the queue is collapsed", hidden=True, costly=True)
    def collapse_count(self) -> int | None:
        return len(self.collapses)

    @column("collapses at which rcv_ssthresh falls", hidden=True, costly=True)
    def collapse_falls(self) -> int | None:
        return sum(collapse.falls for collapse in self.collapses)

    @column("rcv_ssthresh before and after each collapse, in bytes", hidden=True, costly=True)
    def collapse_levels(self) -> str | None:
        return ", ".join(f"{at.before:,} to {at.after:,}" for at in self.collapses) or None

    @column("bytes queued at all collapses", unit="bytes", hidden=True, costly=True)
    def collapse_copied_bytes(self) -> int | None:
        return sum(collapse.queued for collapse in self.collapses)

    coalesced_before = costly(
        "collapses.0.coalesced", "packets coalesced before the first collapse"
    )

    @column("data received", unit="bytes", hidden=True, costly=True)
    def received_bytes(self) -> int | None:
        received = self.table["received_bytes"].max()
        return None if pandas.isna(received) else int(received)

    @column("largest window of an ACK, of the free buffer", unit="%", hidden=True, costly=True)
    def window_share_pct(self) -> float | None:
        if self.unsampled_packets:
            return None
        promised = self.table[self.table["acked_bytes"].diff() > 0]
        before = self.table.shift(1).loc[promised.index]
        free = before["rcvbuf_bytes"] - before["rmem_bytes"]
        shares = (promised["window_left_bytes"] / free).tolist()  # without samples, none
        return 100 * float(max([(self.window_max_bytes or 0) / self.last.rcvbuf, *shares]))

    pause_at = costly("pause.0", "packet at which window updates pause")
    resume_at = costly("pause.1", "packet at which they resume")

    @column("times that the window falls and rises again", hidden=True, costly=True)
    def teeth_count(self) -> int | None:
        return len(self.teeth)

    @column("by how much it rises, in bytes", hidden=True, costly=True)
    def teeth_bytes(self) -> str | None:
        return listed(self.teeth)

    @column("data packets per ACK", hidden=True)
    def packets_per_ack(self) -> float | None:
        return len(self.table) / max(1, self.acks or 0)

    @column("growth of rcv_ssthresh per packet, in full segments", hidden=True, costly=True)
    def growth_segments(self) -> float | None:
        """From its first value to its largest; 0 if it does not grow."""
        values = self.table["rcv_ssthresh_bytes"].astype(float)
        highest = int(values.argmax())
        growth = float(values.iloc[highest] - values.iloc[0])
        return growth / highest / float(self.settings.mss_bytes) if highest else 0.0

    rounds_count = hidden("rounds.shape.0", "all round trips", kind=int)

    @column("payload of the first round trip with data", unit="bytes", hidden=True)
    def first_batch_bytes(self) -> int | None:
        return None if self.batches.empty else int(self.batches["payload_bytes"].iloc[0])

    @column("payload of each round trip with data, in bytes", hidden=True)
    def batch_bytes(self) -> str | None:
        return listed(self.batches["payload_bytes"])

    @column("each of these round trips has less payload than the one before", hidden=True)
    def batches_shrink(self) -> bool | None:
        return bool((self.batches["payload_bytes"].diff().dropna() < 0).all())

    @column("the window at the end of as many round trips, in bytes", hidden=True)
    def batch_windows(self) -> str | None:
        return listed(self.rounds["window_left_bytes"].iloc[: len(self.batches)])

    def notes(self) -> Iterator[Note]:
        """The link, settings that the kernel ignores or limits, packets that tcpdump lost."""
        run, settings, kernel = self.run, self.settings, self.run.kernel.release
        if not run.link.ok:
            yield Note("link", "link not as asked")
        if settings.adv_win_scale not in (None, 1) and series(kernel) >= RATIO_SINCE:
            yield Note("scale_ignored", f"Linux {kernel} ignores tcp_adv_win_scale")
        limit_bytes = rules(kernel).initial_limit_bytes
        if settings.initrwnd * settings.mss_bytes > limit_bytes and run.condition != PATCHED:
            text = f"Linux {kernel} limits the first window to 64 KiB: initrwnd can only reduce it"
            yield Note("initrwnd_limited", text)
        yield from granted(run)
        allowed = self.samples[0].advmss
        if allowed < settings.mss_bytes:
            text = f"the MTU of the path allows segments of {allowed:,} bytes"
            yield Note("mss_limited", f"{text}, not {settings.mss_bytes:,}")
        if lost := capture_losses(run):
            yield Note("capture_lost", f"tcpdump lost {lost} packets")


def listed(sizes: Iterable[int]) -> str | None:
    """Sizes in words; None without any."""
    return ", ".join(f"{int(size):,}" for size in sizes) or None


def granted(run: Run) -> Iterator[Note]:
    """A note with the reason if the buffer is not twice the requested size."""
    for buffer in run.buffers:
        wanted, got = buffer.requested_bytes, buffer.granted_bytes
        if wanted is None or got is None or got == 2 * wanted:
            continue
        why = "net.core.rmem_max" if got < 2 * wanted else "the kernel's minimum, one packet"
        yield Note("granted", f"SO_RCVBUF of {wanted:,} bytes gave {got:,}, because of {why}")


@lru_cache(maxsize=KEPT_TABLES)
def packets(run: Run) -> DataFrame:
    """One row per data segment that arrived, with the columns of `receive_queue.observed` and of
    `receive_queue.simulated`."""
    is_loopback = run.settings_as(Settings).path == LOOPBACK
    segments, table = queue.observed(run, return_ns(run))
    setup = setup_of(run, segments, table)
    until_ns = int(segments["time_ns"].max()) - return_ns(run)
    predicted = queue.simulated(table, setup, reads_of(run), until_ns, on_loopback=is_loopback)
    return table.join(predicted)


def return_ns(run: Run) -> int:
    """How much later the receiver's ACKs appear in the capture than the receiver sent them.

    Packets of the loopback device are captured where they arrive, after netem.
    """
    if run.settings_as(Settings).path != LOOPBACK:
        return 0
    return round(run.condition_asked.link.delay_ms / 2 * 1e6) + SPACING_NS


def setup_of(run: Run, segments: DataFrame, table: DataFrame) -> Setup:
    """The receiver before data arrives: its settings, and what its SYN-ACK announced.

    On machines the device's driver determines the memory of a segment, which is taken from the
    first sample. In virtual time the kernel's own rule determines it.
    """
    settings = run.settings_as(Settings)
    syn = queue.syn_of_receiver(segments)
    granted = samples_of(run)[0].rcvbuf
    rmem = [int(word) for word in run.sysctl(RECEIVER, "net.ipv4.tcp_rmem").split()]
    on_listener = bool(settings.rcvbuf_kib) and settings.set_rcvbuf == LISTEN
    on_accepted = bool(settings.rcvbuf_kib) and settings.set_rcvbuf == ACCEPT
    return Setup(
        rules=rules(run.kernel.release),
        listen_rcvbuf_bytes=granted if on_listener else rmem[1],
        listen_locked=on_listener,
        accept_rcvbuf_bytes=granted if on_accepted else None,
        mss_bytes=int(syn["mss"].iloc[0]),
        timestamps=bool((syn["tsval"] >= 0).iloc[0]),
        adv_win_scale=DEFAULT_SCALE if settings.adv_win_scale is None else settings.adv_win_scale,
        rmem_max_bytes=rmem[2],
        core_rmem_max_bytes=int(run.sysctl(RECEIVER, "net.core.rmem_max")),
        initrwnd_segments=settings.initrwnd,
        quickack=settings.quickack,
        window_clamp_bytes=(settings.window_clamp_kib or 0) * KIB,
        head_bytes=None if run.testbed == VIRTUAL else queue.head_bytes(table),
        rtt_ms=run.condition_asked.link.delay_ms,
        hz=run.kernel.hz or HZ,
    )


def reads_of(run: Run) -> Iterator[Read]:
    """The program's reads, which begin at its first sample, right after accepting."""
    settings = run.settings_as(Settings)
    reads, taken = settings.reads, samples_of(run)
    if not reads.read_bytes:
        return
    at_ns = taken[0].time_ns + reads.after_ms * 1_000_000
    while at_ns <= taken[-1].time_ns + SECOND_NS:
        yield Read(at_ns, reads.read_bytes)
        at_ns += reads.every_us * 1000
