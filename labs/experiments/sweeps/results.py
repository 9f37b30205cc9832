"""The results of a run of the lab `sweeps`: buffers, window, payload in flight and goodput."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from labs.drive.result_columns import Note, column
from labs.drive.units import KIB, MIB
from labs.experiments.sweeps.prediction import expected, expected_interval
from labs.experiments.sweeps.settings import Settings
from labs.experiments.sweeps.socket_buffers import (
    Buffer,
    advertised_bytes,
    after_connecting_bytes,
    receive_buffer,
    refusal,
    send_buffer,
    settings_of,
    transferred,
    usual_in_flight_bytes,
)
from labs.read.claims.ledger import Article, read
from labs.read.later import LazyResults, later
from labs.read.readings.arrivals import arrivals
from labs.read.readings.instruments import capture_losses, shaper_drops, under_memory_pressure
from labs.read.runs.run import Run
from labs.read.stats.arrivals import Arrivals
from labs.read.theory.bulk import Transfer

VIRTUAL = "virtual"
CLOCK_LIMITS_MBIT = 10_000.0
"""Above this rate the readings of the clock take as long as a packet: arch/um/kernel/time.c
timer_read(), TIMER_MULTIPLIER."""


@dataclass(frozen=True, kw_only=True)
class Results(LazyResults):
    """The figures of one run; None for those that it does not have."""

    requested_send_kib: float | None = column(
        "send buffer requested at the sender (none: automatic)", unit="KiB"
    )
    granted_send_kib: float | None = column(
        "send buffer before connecting: getsockopt, or the sysctl", unit="KiB"
    )
    used_send_kib: float | None = column("largest send buffer (sk_sndbuf)", unit="KiB")
    requested_receive_kib: float | None = column(
        "receive buffer requested at the receiver (none: automatic)", unit="KiB"
    )
    granted_receive_kib: float | None = column(
        "receive buffer before connecting: getsockopt, or the sysctl", unit="KiB"
    )
    used_receive_kib: float | None = column("largest receive buffer (sk_rcvbuf)", unit="KiB")
    advertised_kib: float | None = column("largest window that was advertised", unit="KiB")
    in_flight_kib: float | None = column("payload in flight, median over the samples", unit="KiB")
    goodput_mib_s: float | None = column(
        "all payload divided by the time from its first to its last arrival",
        unit="MiB/s",
        predicted_by="predicted_goodput_mib_s",
        headline=True,
    )
    steady_mib_s: float | None = column(
        "the same over the last third of that time", unit="MiB/s", predicted_by="predicted_mib_s"
    )
    predicted_goodput_mib_s: float | None = column(
        "predicted goodput of the whole transfer", unit="MiB/s", hidden=True
    )
    predicted_mib_s: float | None = column("predicted steady goodput", unit="MiB/s")
    predicted_low_mib_s: float | None = column(
        "lowest prediction of the steady goodput, where it depends on single packets", unit="MiB/s"
    )
    predicted_high_mib_s: float | None = column(
        "highest prediction of the steady goodput, likewise", unit="MiB/s"
    )
    bound: str | None = column("limit: what keeps the link idle in steady state, in theory")
    cannot_say: str | None = column("why there is no prediction", hidden=True)
    fixed_by: str | None = column(
        "what fixes the buffers: setsockopt, sysctl, or automatic at both ends", hidden=True
    )
    write_bytes: int | None = column("size of a write (iperf3 -l)", unit="bytes", hidden=True)
    nodelay: bool | None = column("TCP_NODELAY (iperf3 -N)", hidden=True)
    writes_per_wake: int | None = column("writes after each select() (iperf3 -b)", hidden=True)
    mss_bytes: int | None = column("iperf3 -M (0: the path's MSS)", unit="bytes", hidden=True)
    connected_send_kib: float | None = column(
        "automatic send buffer just after connecting", unit="KiB", hidden=True
    )
    goodput_bytes_s: float | None = column("as goodput_mib_s", unit="bytes/s", hidden=True)
    steady_bytes_s: float | None = column("as steady_mib_s", unit="bytes/s", hidden=True)
    transfer_bytes: int | None = column("payload that arrived", unit="bytes", hidden=True)
    took_s: float | None = column("from the first arrival to the last", unit="s", hidden=True)
    refused: str | None = column("what iperf3 said when it refused the size", hidden=True)
    notes: tuple[Note, ...] = field(default=())


def results(run: Run) -> Results:
    """The figures of one run. If iperf3 refused the size, only the request is known. A run that
    only requests buffers has no figures: see `socket_buffers.grants`."""
    settings, refused = settings_of(run), refusal(run)
    if settings.grants:
        return Results(notes=tuple(notes(run, settings, (), None)))
    sends, receives = send_buffer(run), receive_buffer(run)
    return Results(
        requested_send_kib=_kib(sends.requested_bytes),
        granted_send_kib=_kib(sends.granted_bytes),
        used_send_kib=_kib(sends.used_bytes),
        requested_receive_kib=_kib(receives.requested_bytes),
        granted_receive_kib=_kib(receives.granted_bytes),
        used_receive_kib=_kib(receives.used_bytes),
        fixed_by=_fixed_by(sends, receives),
        write_bytes=settings.write_bytes,
        nodelay=settings.nodelay,
        writes_per_wake=settings.writes_per_wake,
        mss_bytes=settings.mss_bytes,
        refused=refused,
        **(_of_the_transfer(run, arrivals(run)) if transferred(run) else {}),
        notes=tuple(notes(run, settings, (sends, receives), refused)),
    )


def _of_the_transfer(run: Run, seen: Arrivals) -> dict[str, Any]:
    return {
        "advertised_kib": _kib(advertised_bytes(run)),
        "in_flight_kib": _kib(usual_in_flight_bytes(run)),
        "goodput_mib_s": _mib(seen.goodput_bytes_s),
        "steady_mib_s": _mib(seen.steady_bytes_s),
        **_of_the_theory(run),
        "connected_send_kib": _kib(after_connecting_bytes(run)),
        "goodput_bytes_s": seen.goodput_bytes_s,
        "steady_bytes_s": seen.steady_bytes_s,
        "transfer_bytes": seen.payload_bytes,
        "took_s": seen.took_s,
    }


def _of_the_theory(run: Run) -> dict[str, Any]:
    def said(one: Callable[[Transfer], Any]) -> Any:
        return later(lambda: None if expected(run).cannot_say else one(expected(run)))

    def end(place: int) -> Any:
        return later(lambda: (wide := expected_interval(run)) and _mib(wide.steady_bytes_s[place]))

    return {
        "cannot_say": later(lambda: expected(run).cannot_say or None),
        "predicted_goodput_mib_s": said(lambda theory: _mib(theory.goodput_bytes_s)),
        "predicted_mib_s": said(lambda theory: _mib(theory.steady_bytes_s)),
        "predicted_low_mib_s": end(0),
        "predicted_high_mib_s": end(1),
        "bound": said(lambda theory: theory.bound),
    }


def _fixed_by(*buffers: Buffer) -> str:
    """`setsockopt`, `sysctl`, or `automatic`: the first of these that fixes a buffer."""
    return max((one.fixed_by for one in buffers), key=("automatic", "sysctl", "setsockopt").index)


@cache
def article() -> Article:
    """The claims of article 5."""
    return read(Path(__file__).with_name("article5.toml"))


def notes(
    run: Run, settings: Settings, buffers: tuple[Buffer, ...], refused: str | None
) -> Iterator[Note]:
    """What a reader of the figures must know; nothing for a regular run."""
    if not run.link.ok:
        yield Note("link", "link not as asked")
    asked_mbit, measured_mbit = run.link.asked.rate_mbit or 0.0, run.link.measured.rate_mbit or 0.0
    if run.testbed == VIRTUAL and asked_mbit > CLOCK_LIMITS_MBIT:
        yield Note(
            "clock",
            "the clock limits this: each reading of the virtual clock costs 256 ns, so the link "
            f"check sees {measured_mbit / 1e3:.3g} of {asked_mbit / 1e3:g} Gbit/s",
        )
    if refused:
        yield Note("refused", f"iperf3 refused {settings.window_kib:,} KiB: {refused}")
    for words, one in zip(("send", "receive"), buffers, strict=False):
        if one.requested_bytes is None or one.granted_bytes in (None, 2 * one.requested_bytes):
            continue
        yield Note(
            "granted",
            f"a request of {one.requested_bytes:,} bytes gave a {words} buffer of "
            f"{one.granted_bytes:,}",
        )
    if not transferred(run):
        return
    if run.ended == "limit":
        yield Note("limit", "ended by the time limit")
    if drops := shaper_drops(run):
        yield Note("shaper_drops", f"the shaper's queue overflowed and dropped {drops} packets")
    if lost := capture_losses(run):
        yield Note("capture_lost", f"the capture lost {lost} packets")
    if under_memory_pressure(run):
        yield Note("memory_pressure", "TCP came under memory pressure")


def _kib(size: float | None) -> float | None:
    return None if size is None else size / KIB


def _mib(bytes_s: float | None) -> float | None:
    return None if bytes_s is None else bytes_s / MIB
