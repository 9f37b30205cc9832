"""What to set on a machine of one's own, as a table and as lines to be pasted."""

from __future__ import annotations

from labs.read.display.format import size_in_words
from labs.read.display.notebook import Table, Text
from labs.read.theory.buffer_sizing import Advice, advise

ENOUGH = "the default is enough"


def advice(rate_mbit: float, rtt_ms: float, *kernels: str) -> Table:
    """What one flow needs to fill a line: a row a kernel, the same kernel at both ends."""
    found = {kernel: advise(rate_mbit, rtt_ms, kernel) for kernel in kernels}
    return Table(
        [
            {
                "Linux": kernel,
                "BDP": size_in_words(one.bdp_bytes),
                "receive buffer": size_in_words(one.receive_bytes),
                "of the BDP": _share(one.receive_bytes, one.bdp_bytes),
                "send buffer": size_in_words(one.send_bytes),
                "of the BDP ": _share(one.send_bytes, one.bdp_bytes),
                "on the receiver": ENOUGH if one.receive_suffices else f"tcp_rmem = {one.rmem()}",
                "on the sender": ENOUGH if one.send_suffices else f"tcp_wmem = {one.wmem()}",
            }
            for kernel, one in found.items()
        ]
    )


def to_paste(rate_mbit: float, rtt_ms: float, kernel: str) -> Text:
    """The sysctl lines for both ends; a remark where the defaults are enough."""
    found: Advice = advise(rate_mbit, rtt_ms, kernel)
    return Text(
        "\n".join(
            [
                "# on the receiver",
                _line("tcp_rmem", found.rmem(), found.receive_suffices),
                "",
                "# on the sender",
                _line("tcp_wmem", found.wmem(), found.send_suffices),
            ]
        )
    )


def _line(name: str, value: str, suffices: bool) -> str:
    return f"# {ENOUGH}" if suffices else f"sysctl -w net.ipv4.{name}='{value}'"


def _share(size: int, bdp: float) -> str:
    return f"{size / bdp:.2f}" if bdp else ""
