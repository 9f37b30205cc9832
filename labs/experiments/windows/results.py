"""The results of a run of the lab `windows`: memory, queue, window, drops, and prediction."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial

import pandas
from pandas import DataFrame

from labs.drive.result_columns import Note, column
from labs.experiments.windows.conditions import PATCHED
from labs.experiments.windows.packets import (
    Agreement,
    SynAck,
    accepted,
    agreement,
    overhead_bytes,
    packets,
    right_edge,
    round_trips,
    samples_of,
    syn_ack,
)
from labs.experiments.windows.settings import NEVER, Settings
from labs.read.claims.ledger import article_beside
from labs.read.parse.socket_samples import SocketSample
from labs.read.readings.instruments import capture_losses
from labs.read.runs.run import Run
from labs.read.theory.receive_window_kernels import rules
from labs.read.theory.windows import RATIO_SINCE, series

article = partial(article_beside, __file__)


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

    @cached_property
    def offered(self) -> SynAck:
        return syn_ack(self.run)

    @cached_property
    def rounds(self) -> DataFrame:
        """One row per round trip."""
        return round_trips(self.run)

    @cached_property
    def agreement(self) -> Agreement:
        return agreement(self.table)

    @column("receive buffer (sk_rcvbuf) at the end", unit="bytes")
    def skmem_rb(self) -> int | None:
        return self.last.rcvbuf

    @column("memory in use (sk_rmem_alloc) at the end", unit="bytes")
    def skmem_r(self) -> int | None:
        return self.last.rmem_alloc

    @column("largest memory in use", unit="bytes", hidden=True)
    def skmem_r_max(self) -> int | None:
        if not self.settings.sampled:
            return None
        return max(sample.rmem_alloc for sample in self.samples)

    @column("largest memory in use above the buffer", unit="bytes")
    def overshoot_bytes(self) -> int | None:
        if not self.settings.sampled:
            return None
        return max(0, *(sample.rmem_alloc - sample.rcvbuf for sample in self.samples))

    @column("data queued for the application at the end", unit="bytes", headline=True)
    def recv_q(self) -> int | None:
        return self.last.rcvq_bytes

    @column("largest share of the buffer that is payload", unit="%")
    def payload_pct(self) -> float | None:
        if not self.settings.sampled:
            return None
        return 100 * max(sample.rcvq_bytes / sample.rcvbuf for sample in self.samples)

    @column("memory besides payload per queued packet, at the end", unit="bytes")
    def metadata_bytes(self) -> float | None:
        return metadata_bytes(self.table, self.settings)

    @column("memory besides payload of the first packet", unit="bytes", hidden=True)
    def first_metadata_bytes(self) -> int | None:
        return first_metadata_bytes(self.table)

    @column("least memory besides payload of any packet on this kernel", unit="bytes", hidden=True)
    def overhead_bytes(self) -> int | None:
        return overhead_bytes(self.run)

    @column("data packets that arrived")
    def packets(self) -> int | None:
        return len(self.table)

    @column("packets with new data: no retransmissions, no probes", hidden=True)
    def first_flight_packets(self) -> int | None:
        return new_packets(self.table)

    @column("data packets without a sample of their own")
    def unsampled_packets(self) -> int | None:
        return int(self.table["rmem_bytes"].isna().sum())

    @column("packets dropped for lack of memory (TCPRcvQDrop)")
    def rcv_q_drop(self) -> int | None:
        return self.last.counters.get("TCPRcvQDrop")

    @column("packets dropped, by any counter", hidden=True)
    def dropped(self) -> int | None:
        if not self.settings.sampled:
            return None
        return int((self.table["dropped"].fillna(0) > 0).sum())

    @column("packets dropped although the window had room for them")
    def dropped_in_window(self) -> int | None:
        return dropped_in_window(self.table) if self.settings.sampled else None

    @column("packets sent beyond every window that was offered", hidden=True)
    def beyond_window(self) -> int | None:
        return beyond_window(self.table, self.offered.window_bytes)

    @column("packets coalesced with the one before (TCPRcvCoalesce)")
    def coalesced(self) -> int | None:
        return self.last.counters.get("TCPRcvCoalesce")

    @column("buffers freed by collapsing (TCPRcvCollapsed)")
    def collapsed(self) -> int | None:
        return self.last.counters.get("TCPRcvCollapsed")

    @column("times the queue was pruned (PruneCalled)", hidden=True)
    def prunes(self) -> int | None:
        return self.last.counters.get("PruneCalled")

    @column("window of the SYN-ACK", unit="bytes")
    def first_window_bytes(self) -> int | None:
        return self.offered.window_bytes

    @column("window of the first ACK of data", unit="bytes", hidden=True)
    def second_window_bytes(self) -> int | None:
        return second_window_bytes(self.table)

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

    @column("rcv_ssthresh at the end", unit="bytes", hidden=True)
    def rcv_ssthresh(self) -> int | None:
        return self.last.rcv_ssthresh

    @column("window scale of the receiver")
    def wscale(self) -> int | None:
        return self.offered.wscale

    @column("SO_RCVBUF (0: automatic)", unit="KiB", hidden=True)
    def requested_kib(self) -> int | None:
        return self.settings.rcvbuf_kib

    @column("TCP_WINDOW_CLAMP", unit="KiB", hidden=True)
    def window_clamp_kib(self) -> int | None:
        return self.settings.window_clamp_kib

    @column("tcp_adv_win_scale", hidden=True)
    def adv_win_scale(self) -> int | None:
        return self.settings.adv_win_scale

    @column("MSS", unit="bytes", hidden=True)
    def mss_bytes(self) -> int | None:
        return self.settings.mss_bytes

    @column("loopback, or two hosts and a router", hidden=True)
    def path(self) -> str | None:
        return self.settings.path

    @column("how the application reads", hidden=True)
    def reader(self) -> str | None:
        return self.settings.reader

    @column("how the sender writes", hidden=True)
    def fill(self) -> str | None:
        return self.settings.fill

    @column("packets at which the predicted window equals the one on the wire", unit="%")
    def predicted_equal_pct(self) -> float | None:
        return self.agreement.equal_pct

    @column("largest deviation of the predicted window", unit="bytes", hidden=True)
    def deviation_bytes(self) -> int | None:
        return self.agreement.largest_bytes

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


def dropped_in_window(table: DataFrame) -> int:
    """The dropped packets that ended within the window that was offered when they arrived. Since
    6.6 the ACK of a drop takes that window back."""
    end = table["seq"] + table["payload_bytes"] - 1
    fits = end <= right_edge(table).shift(1)
    return int((fits & (table["dropped"].fillna(0) > 0)).sum())


def beyond_window(table: DataFrame, first_window_bytes: int) -> int:
    """The packets that ended beyond the right edge of every window offered before them."""
    edges = right_edge(table).cummax().shift(1, fill_value=first_window_bytes)
    return int((table["seq"] + table["payload_bytes"] - 1 > edges).sum())


def new_packets(table: DataFrame) -> int:
    """The packets that carry data beyond all earlier ones: neither retransmissions nor probes."""
    end = table["seq"] + table["payload_bytes"]
    return int((end > end.cummax().shift(fill_value=0)).sum())


def metadata_bytes(table: DataFrame, settings: Settings) -> float | None:
    """The memory besides payload per queued packet at the end; None if packets were read."""
    sampled = table[table["rmem_bytes"].notna()]
    queued = int((accepted(table) > 0).sum())
    if settings.reader != NEVER or sampled.empty or not queued:
        return None
    last = sampled.iloc[-1]
    return float(last["rmem_bytes"] - last["recv_q_bytes"]) / queued


def first_metadata_bytes(table: DataFrame) -> int | None:
    """The memory besides payload that the first packet needs; None if it has no sample."""
    first = table.iloc[0]
    if pandas.isna(first["rmem_bytes"]):
        return None
    return int(first["rmem_bytes"] - first["recv_q_bytes"])


def second_window_bytes(table: DataFrame) -> int:
    """The window of the receiver's first ACK of data: the one that the sender uses in the second
    round trip, and the first one that is scaled."""
    first = table.iloc[0]
    return int(right_edge(table).iloc[0] - first["acked_bytes"])


def granted(run: Run) -> Iterator[Note]:
    """A note with the reason if the buffer is not twice the requested size."""
    for buffer in run.buffers:
        wanted, got = buffer.requested_bytes, buffer.granted_bytes
        if wanted is None or got is None or got == 2 * wanted:
            continue
        why = "net.core.rmem_max" if got < 2 * wanted else "the kernel's minimum, one packet"
        yield Note("granted", f"SO_RCVBUF of {wanted:,} bytes gave {got:,}, because of {why}")
