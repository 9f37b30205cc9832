"""Tables of buffer sizes: those of every run, and what to set on a machine of your own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from labs.drive.units import KIB, MIB
from labs.experiments.buffers.prediction import expected, receive_buffer, send_buffer
from labs.experiments.buffers.settings import Settings
from labs.read.display.advice import ENOUGH
from labs.read.display.advice import to_paste as lines_to_paste
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.rich_output import Table, Text
from labs.read.readings.bulk_transfer import Buffer
from labs.read.readings.goodput import download, own_socket
from labs.read.runs.run import Run
from labs.read.theory.advice import advise

if TYPE_CHECKING:
    from pandas import DataFrame, Series

COLUMNS = (
    "condition",
    "whose",
    "set by",
    "requested",
    "core maximum",
    "granted",
    "used",
    "advertised",
    "usable window",
    "allows MiB/s",
    "measured MiB/s",
)
EXACT = ("requested", "core maximum", "granted")
ROUNDED = ("used", "advertised", "usable window")
WHOSE = {"receive": "receiver", "send": "sender"}
CAPS = {"receive": "net.core.rmem_max", "send": "net.core.wmem_max"}
# A shorter RTT is that of the machine, and says nothing about a buffer.
SHORTEST_RTT_MS = 0.1


def buffer_rows(runs: Iterable[Run]) -> Table:
    """One row per buffer; sizes in bytes, empty where a run does not say.

    `requested` is what the program or the sysctl asked for (empty: the kernel sizes the buffer),
    `granted` what getsockopt says at the end of the transfer, `used` the most memory that was in
    it, `advertised` the largest window on the wire. `usable window` is the theory's: what the
    buffer lets be sent and not yet acknowledged; `allows MiB/s` is that over the round trip.
    """
    rows = [row for run in runs for row in _rows(run)]
    return Table(
        [[row.get(name) for name in COLUMNS] for row in rows], columns=list(COLUMNS), dtype=object
    )


def in_kib(rows: Table) -> Table:
    """The same with sizes in KiB: requested and granted ones to the byte, the others rounded."""
    words = {
        **{name: rows[name].map(_exactly) for name in EXACT},
        **{name: rows[name].map(_rounded) for name in ROUNDED},
        **{name: rows[name].map(_speed) for name in ("allows MiB/s", "measured MiB/s")},
    }
    table = Table(rows.assign(**words))
    table.attrs["units"] = dict.fromkeys((*EXACT, *ROUNDED), "KiB")
    return table


def _exactly(size: int | None) -> str:
    """A size in KiB to the byte: 51,200; 208.001."""
    if size is None or size != size:
        return ""
    return f"{size / KIB:,.3f}".rstrip("0").rstrip(".")


def _rounded(size: int | None) -> str:
    return "" if size is None or size != size else f"{size / KIB:,.0f}"


def _speed(value: float | None) -> str:
    return "" if value is None or value != value else in_three_digits(value)


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    for one in run.buffers:
        # Programs that ask for a buffer leave a line each.
        yield {
            "condition": run.condition,
            "whose": WHOSE[one.socket],
            "set by": "setsockopt",
            "requested": one.requested_bytes,
            "granted": one.granted_bytes,
            "core maximum": int(run.sysctl(one.host, CAPS[one.socket])),
        }
    if run.settings_as(Settings).is_download:
        steady = download(run).third_bytes_s(2)
        speed = None if steady is None else steady / MIB
        yield {**_sender(run), "measured MiB/s": speed}
        yield {**_receiver(run), "measured MiB/s": speed}


def _sender(run: Run) -> dict[str, Any]:
    rows = own_socket(run.samples("server"), "bytes_acked")
    theory = expected(run)
    return {
        **_set(run, "server", "send", send_buffer(run)),
        **_seen(rows, granted="sndbuf_bytes", used="wmem_queued_bytes"),
        **_allows(run, None if theory is None else theory.send_bytes),
    }


def _receiver(run: Run) -> dict[str, Any]:
    rows = own_socket(run.samples("client"), "bytes_received")
    offered = own_socket(run.samples("server"), "bytes_acked")
    theory = expected(run)
    return {
        **_set(run, "client", "receive", receive_buffer(run)),
        **_seen(rows, granted="rcvbuf_bytes", used="rmem_alloc_bytes"),
        "advertised": _most(offered, "snd_wnd_bytes"),
        **_allows(run, None if theory is None else theory.window_bytes),
    }


def _set(run: Run, host: str, socket: str, buffer: Buffer) -> dict[str, Any]:
    by = (
        "setsockopt"
        if buffer.via_setsockopt
        else "the kernel"
        if buffer.fixed_bytes is None
        else ("sysctl")
    )
    cap = int(run.sysctl(host, CAPS[socket])) if buffer.via_setsockopt else None
    return {
        "condition": run.condition,
        "whose": WHOSE[socket],
        "set by": by,
        "requested": buffer.requested_bytes,
        "core maximum": cap,
    }


def _seen(rows: DataFrame, *, granted: str, used: str) -> dict[str, Any]:
    known = _known(rows, granted)
    return {"granted": None if known.empty else int(known.iloc[-1]), "used": _most(rows, used)}


def _most(rows: DataFrame, column: str) -> int | None:
    known = _known(rows, column)
    return None if known.empty else int(known.max())


def _known(rows: DataFrame, column: str) -> Series[Any]:
    found: Series[Any] = rows[column].dropna() if column in rows else rows["at_ns"].iloc[:0]
    return found


def _allows(run: Run, under_way: int | None) -> dict[str, Any]:
    rtt_ms = run.link.measured.rtt_ms
    if under_way is None or rtt_ms < SHORTEST_RTT_MS:
        return {"usable window": under_way}
    return {"usable window": under_way, "allows MiB/s": under_way / (rtt_ms / 1e3) / MIB}


def advice(rate_mbit: float, rtt_ms: float, *kernels: str) -> Table:
    """The buffers that one flow needs to fill a link: one row per kernel, which runs at both ends.

    `receive buffer` is for packets that are coalesced in pairs (GRO), as in virtual time, the next
    size for packets that are not coalesced. The values to set suffice for both.
    """
    found = {kernel: advise(rate_mbit, rtt_ms, kernel) for kernel in kernels}
    return Table(
        [
            {
                "Linux": kernel,
                "BDP": size_in_words(one.bdp_bytes),
                "receive buffer": size_in_words(one.receive_bytes),
                "of the BDP": _share(one.receive_bytes, one.bdp_bytes),
                "without coalescing": size_in_words(one.receive_alone_bytes),
                "send buffer": size_in_words(one.send_bytes),
                "of the BDP ": _share(one.send_bytes, one.bdp_bytes),
                "on the receiver": ENOUGH if one.receive_suffices else f"tcp_rmem = {one.rmem()}",
                "on the sender": ENOUGH if one.send_suffices else f"tcp_wmem = {one.wmem()}",
            }
            for kernel, one in found.items()
        ]
    )


def to_paste(rate_mbit: float, rtt_ms: float, kernel: str) -> Text:
    """The sysctl lines for both ends; a remark if the defaults are sufficient."""
    return Text(lines_to_paste(advise(rate_mbit, rtt_ms, kernel)))


def _share(size: int, bdp: float) -> str:
    return f"{size / bdp:.2f}" if bdp else ""
