"""A table of the socket buffers of runs: what was requested, granted, used and advertised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labs.drive.units import KIB, MIB
from labs.read.display.format import in_three_digits, is_known
from labs.read.display.rich_output import Table
from labs.read.readings.bulk_transfer import SETSOCKOPT
from labs.read.readings.goodput import own_socket

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from labs.read.runs.run import Run

COLUMNS = (
    *("condition", "whose", "set by", "requested", "core maximum", "granted", "used"),
    *("advertised", "usable window", "allows MiB/s", "measured MiB/s"),
)
EXACT = ("requested", "core maximum", "granted")
ROUNDED = ("used", "advertised", "usable window")
WHOSE = {"receive": "receiver", "send": "sender"}
CAPS = {"receive": "net.core.rmem_max", "send": "net.core.wmem_max"}
SHORTEST_RTT_MS = 0.1
"""A shorter RTT is that of the machine, and says nothing about a buffer."""


@dataclass(frozen=True)
class Socket:
    """One end of a transfer: `send` or `receive`, what set its buffer and to which size, what that
    lets be in flight in theory, and the steady goodput that was measured."""

    end: str
    set_by: str
    requested_bytes: int | None
    usable_bytes: int | None
    steady_bytes_s: float | None


def buffer_table(runs: Iterable[tuple[Run, Sequence[Socket]]]) -> Table:
    """One row per buffer; sizes in bytes, empty where a run does not say.

    `requested` is what the program or the sysctl asked for (empty: the kernel sizes the buffer),
    `granted` what getsockopt says at the end of the transfer, `used` the most memory that was in
    it, `advertised` the largest window on the wire. `usable window` is the theory's: what the
    buffer lets be sent and not yet acknowledged; `allows MiB/s` is that over the round trip.
    """
    rows = [row for run, sockets in runs for row in _rows(run, sockets)]
    return Table(
        [[row.get(name) for name in COLUMNS] for row in rows], columns=list(COLUMNS), dtype=object
    )


def in_kib(rows: Table) -> Table:
    """The same with sizes in KiB: requested and granted ones to the byte, the others rounded."""
    written = {
        **dict.fromkeys(EXACT, lambda size: f"{size / KIB:,.3f}".rstrip("0").rstrip(".")),
        **dict.fromkeys(ROUNDED, lambda size: f"{size / KIB:,.0f}"),
        **dict.fromkeys(("allows MiB/s", "measured MiB/s"), in_three_digits),
    }
    cells = {
        name: [write(value) if is_known(value) else "" for value in rows[name]]
        for name, write in written.items()
    }
    table = Table(rows.assign(**cells))
    table.attrs["units"] = dict.fromkeys((*EXACT, *ROUNDED), "KiB")
    return table


def _rows(run: Run, sockets: Sequence[Socket]) -> Iterator[dict[str, Any]]:
    for request in run.buffers:  # of programs that only ask
        yield {
            "condition": run.condition,
            "whose": WHOSE[request.socket],
            "set by": SETSOCKOPT,
            "requested": request.requested_bytes,
            "granted": request.granted_bytes,
            "core maximum": int(run.sysctl(request.host, CAPS[request.socket])),
        }
    for socket in sockets:
        yield _of_socket(run, socket)


def _of_socket(run: Run, socket: Socket) -> dict[str, Any]:
    sends = socket.end == "send"
    host, counter = ("server", "bytes_acked") if sends else ("client", "bytes_received")
    samples, of_sender = (
        own_socket(run.samples(host), counter),
        own_socket(run.samples("server"), "bytes_acked"),
    )
    granted = _values(samples, "sndbuf_bytes" if sends else "rcvbuf_bytes")
    rtt_s = run.link.measured.rtt_ms / 1e3
    allows = socket.usable_bytes is not None and 1e3 * rtt_s >= SHORTEST_RTT_MS
    return {
        "condition": run.condition,
        "whose": WHOSE[socket.end],
        "set by": socket.set_by,
        "requested": socket.requested_bytes,
        "core maximum": (
            int(run.sysctl(host, CAPS[socket.end])) if socket.set_by == SETSOCKOPT else None
        ),
        "granted": None if granted.empty else int(granted.iloc[-1]),
        "used": _most(samples, "wmem_queued_bytes" if sends else "rmem_alloc_bytes"),
        "advertised": None if sends else _most(of_sender, "snd_wnd_bytes"),
        "usable window": socket.usable_bytes,
        "allows MiB/s": (socket.usable_bytes or 0) / rtt_s / MIB if allows else None,
        "measured MiB/s": None if socket.steady_bytes_s is None else socket.steady_bytes_s / MIB,
    }


def _most(rows: DataFrame, column: str) -> int | None:
    values = _values(rows, column)
    return None if values.empty else int(values.max())


def _values(rows: DataFrame, column: str) -> Series[Any]:
    values: Series[Any] = rows[column].dropna() if column in rows else rows["at_ns"].iloc[:0]
    return values
