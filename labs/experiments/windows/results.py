"""The results of a run of the lab `windows`: memory, queue, window, drops, and prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas
from pandas import DataFrame

from labs.drive.result_columns import Note, column
from labs.experiments.windows.conditions import PATCHED
from labs.experiments.windows.packets import (
    agreement,
    overhead_bytes,
    packets,
    samples_of,
    settings_of,
)
from labs.experiments.windows.round_trips import accepted, right_edge, round_trips, syn_ack
from labs.experiments.windows.settings import NEVER, Settings
from labs.read.claims.ledger import Article, read
from labs.read.parse.socket_samples import SocketSample
from labs.read.readings.instruments import capture_losses
from labs.read.runs.run import Run
from labs.read.theory.receive_window_kernels import rules
from labs.read.theory.windows import RATIO_SINCE, series


@dataclass(frozen=True, kw_only=True)
class Results:
    """The figures of one run; None for those that it does not have."""

    skmem_rb: int | None = column("receive buffer (sk_rcvbuf) at the end", unit="bytes")
    skmem_r: int | None = column("memory in use (sk_rmem_alloc) at the end", unit="bytes")
    skmem_r_max: int | None = column("largest memory in use", unit="bytes", hidden=True)
    overshoot_bytes: int | None = column("largest memory in use above the buffer", unit="bytes")
    recv_q: int | None = column(
        "data queued for the application at the end", unit="bytes", headline=True
    )
    payload_pct: float | None = column("largest share of the buffer that is payload", unit="%")
    metadata_bytes: float | None = column(
        "memory besides payload per queued packet, at the end", unit="bytes"
    )
    first_metadata_bytes: int | None = column(
        "memory besides payload of the first packet", unit="bytes", hidden=True
    )
    overhead_bytes: int | None = column(
        "least memory besides payload of any packet on this kernel", unit="bytes", hidden=True
    )
    packets: int | None = column("data packets that arrived")
    first_flight_packets: int | None = column(
        "packets with new data: no retransmissions, no probes", hidden=True
    )
    unsampled_packets: int | None = column("data packets without a sample of their own")
    rcv_q_drop: int | None = column("packets dropped for lack of memory (TCPRcvQDrop)")
    dropped: int | None = column("packets dropped, by any counter", hidden=True)
    dropped_in_window: int | None = column("packets dropped although the window had room for them")
    beyond_window: int | None = column(
        "packets sent beyond every window that was offered", hidden=True
    )
    coalesced: int | None = column("packets coalesced with the one before (TCPRcvCoalesce)")
    collapsed: int | None = column("buffers freed by collapsing (TCPRcvCollapsed)")
    prunes: int | None = column("times the queue was pruned (PruneCalled)", hidden=True)
    first_window_bytes: int | None = column("window of the SYN-ACK", unit="bytes")
    second_window_bytes: int | None = column(
        "window of the first ACK of data", unit="bytes", hidden=True
    )
    window_max_bytes: int | None = column("largest window that was offered", unit="bytes")
    window_updates: int | None = column("times the window's right edge moved")
    acks: int | None = column("ACKs of the receiver", hidden=True)
    round_trips: int | None = column("round trips in which data was accepted")
    rcv_ssthresh: int | None = column("rcv_ssthresh at the end", unit="bytes", hidden=True)
    wscale: int | None = column("window scale of the receiver")
    requested_kib: int | None = column("SO_RCVBUF (0: automatic)", unit="KiB", hidden=True)
    window_clamp_kib: int | None = column("TCP_WINDOW_CLAMP", unit="KiB", hidden=True)
    adv_win_scale: int | None = column("tcp_adv_win_scale", hidden=True)
    mss_bytes: int | None = column("MSS", unit="bytes", hidden=True)
    path: str | None = column("loopback, or two hosts and a router", hidden=True)
    reader: str | None = column("how the application reads", hidden=True)
    fill: str | None = column("how the sender writes", hidden=True)
    predicted_equal_pct: float | None = column(
        "packets at which the predicted window equals the one on the wire", unit="%"
    )
    deviation_bytes: int | None = column(
        "largest deviation of the predicted window", unit="bytes", hidden=True
    )
    notes: tuple[Note, ...] = field(default=())


def results(run: Run) -> Results:
    """The figures of one run: from the samples of the receiver's socket and from the capture."""
    settings, table, samples = settings_of(run), packets(run), samples_of(run)
    seen, rounds, last = agreement(table), round_trips(run), samples[-1]
    offered = syn_ack(run)
    return Results(
        skmem_rb=last.rcvbuf,
        skmem_r=last.rmem_alloc,
        recv_q=last.rcvq_bytes,
        metadata_bytes=metadata_bytes(table, settings),
        first_metadata_bytes=first_metadata_bytes(table),
        overhead_bytes=overhead_bytes(run),
        packets=len(table),
        first_flight_packets=new_packets(table),
        unsampled_packets=int(table["rmem_bytes"].isna().sum()),
        rcv_q_drop=last.counters.get("TCPRcvQDrop"),
        beyond_window=beyond_window(table, offered.window_bytes),
        coalesced=last.counters.get("TCPRcvCoalesce"),
        collapsed=last.counters.get("TCPRcvCollapsed"),
        prunes=last.counters.get("PruneCalled"),
        first_window_bytes=offered.window_bytes,
        second_window_bytes=second_window_bytes(table),
        window_max_bytes=max(offered.window_bytes, int(rounds["window_bytes"].max())),
        window_updates=int(rounds["updates"].sum()),
        acks=int((table["acked_bytes"].diff() > 0).sum()),
        round_trips=int((rounds["payload_bytes"] > 0).sum()),
        rcv_ssthresh=last.rcv_ssthresh,
        wscale=offered.wscale,
        requested_kib=settings.rcvbuf_kib,
        window_clamp_kib=settings.window_clamp_kib,
        adv_win_scale=settings.adv_win_scale,
        mss_bytes=settings.mss_bytes,
        path=settings.path,
        reader=settings.reader,
        fill=settings.fill,
        predicted_equal_pct=seen.equal_pct,
        deviation_bytes=seen.largest_bytes,
        notes=tuple(notes(run)),
        **(inside_of(samples, table) if settings.sampled else {}),
    )


def inside_of(samples: Sequence[SocketSample], table: DataFrame) -> dict[str, Any]:
    """What only samples after each packet show: the largest memory and payload, and the packets
    that were dropped."""
    return {
        "skmem_r_max": max(one.rmem_alloc for one in samples),
        "overshoot_bytes": max(0, *(one.rmem_alloc - one.rcvbuf for one in samples)),
        "payload_pct": 100 * max(one.rcvq_bytes / one.rcvbuf for one in samples),
        "dropped": int((table["dropped"].fillna(0) > 0).sum()),
        "dropped_in_window": dropped_in_window(table),
    }


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


@cache
def article() -> Article:
    """The claims of article 4."""
    return read(Path(__file__).with_name("article4.toml"))


def new_packets(table: DataFrame) -> int:
    """The packets that carry data beyond all earlier ones: neither retransmissions nor probes."""
    end = table["seq"] + table["payload_bytes"]
    return int((end > end.cummax().shift(fill_value=0)).sum())


def metadata_bytes(table: DataFrame, settings: Settings) -> float | None:
    """The memory besides payload per queued packet at the end; None if packets were read."""
    known = table[table["rmem_bytes"].notna()]
    queued = int((accepted(table) > 0).sum())
    if settings.reader != NEVER or known.empty or not queued:
        return None
    last = known.iloc[-1]
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


def notes(run: Run) -> Iterator[Note]:
    """Notes on a run: the link, settings that the kernel ignores or limits, packets that tcpdump
    lost."""
    settings, kernel = settings_of(run), run.kernel.release
    if not run.link.ok:
        yield Note("link", "link not as asked")
    if settings.adv_win_scale not in (None, 1) and series(kernel) >= RATIO_SINCE:
        yield Note("scale_ignored", f"Linux {kernel} ignores tcp_adv_win_scale")
    limit_bytes = rules(kernel).initial_limit_bytes
    if settings.initrwnd * settings.mss_bytes > limit_bytes and run.condition != PATCHED:
        yield Note(
            "initrwnd_limited",
            f"Linux {kernel} limits the first window to 64 KiB: initrwnd can only reduce it",
        )
    yield from granted(run, settings)
    carried = samples_of(run)[0].advmss
    if carried < settings.mss_bytes:
        yield Note(
            "mss_limited",
            f"the MTU of the path allows segments of {carried:,} bytes, not {settings.mss_bytes:,}",
        )
    lost = capture_losses(run)
    if lost:
        yield Note("capture_lost", f"tcpdump lost {lost} packets")


def granted(run: Run, settings: Settings) -> Iterator[Note]:
    """A note with the reason if the buffer is not twice the requested size."""
    for one in run.buffers:
        wanted, got = one.requested_bytes, one.granted_bytes
        if wanted is None or got is None or got == 2 * wanted:
            continue
        why = "net.core.rmem_max" if got < 2 * wanted else "the kernel's minimum, one packet"
        yield Note("granted", f"SO_RCVBUF of {wanted:,} bytes gave {got:,}, because of {why}")
