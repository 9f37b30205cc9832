"""Judging function: what changes the size of a socket buffer, and the effect of memory pressure."""

from __future__ import annotations

from dataclasses import dataclass

from labs.read.claims.evidence import Evidence
from labs.read.claims.rules import not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import HOLDS, WRONG, Finding
from labs.read.display.format import size_in_words
from labs.read.readings.goodput import own_socket
from labs.read.readings.instruments import under_memory_pressure
from labs.read.runs.run import Run


@dataclass(frozen=True)
class _Sizes:
    """The receive buffer of the client and the send buffer of the server: first and last sizes."""

    receive_first: int
    receive_last: int
    send_first: int
    send_last: int
    window_last: int

    @property
    def growth(self) -> tuple[float, float]:
        return self.receive_last / self.receive_first, self.send_last / self.send_first


def memory_pressure(claim: Claim, seen: Evidence) -> Finding:
    """How far buffers grow while memory is free, and how far under pressure."""
    free, pressed = (seen.run(claim.arguments[which]) for which in ("free", "pressed"))
    sizes, under = _sizes(free), _sizes(pressed)
    if sizes is None or under is None:
        return not_judged("a transfer ended before its buffers were sampled")
    if under_memory_pressure(free):
        return not_judged(f"{free.condition} was under memory pressure")
    if not under_memory_pressure(pressed):
        return not_judged(f"{pressed.condition} did not come under memory pressure")
    measured = {
        "receive buffer, no pressure": sizes.growth[0],
        "send buffer, no pressure": sizes.growth[1],
        "receive buffer, pressure": under.growth[0],
        "send buffer, pressure": under.growth[1],
    }
    grows = max(sizes.growth) > 1
    shrinks = min(under.growth) < 1
    return Finding(
        verdict=HOLDS if shrinks and not grows else WRONG,
        measured=measured,
        reason=f"without memory pressure the receive buffer {_moves(sizes, 'receive')} and the "
        f"send buffer {_moves(sizes, 'send')}, by automatic sizing: the first follows what the "
        "program reads per round trip, the second the congestion window. Under pressure "
        f"(condition {pressed.condition}, net.ipv4.tcp_mem {_pages(pressed)}) they "
        f"{_under(under, sizes)}",
    )


def _moves(sizes: _Sizes, which: str) -> str:
    first, last = getattr(sizes, f"{which}_first"), getattr(sizes, f"{which}_last")
    if last == first:
        return f"stays at {size_in_words(first)}"
    word = "grows" if last > first else "shrinks"
    return f"{word} from {size_in_words(first)} to {size_in_words(last)}"


def _under(under: _Sizes, free: _Sizes) -> str:
    """What is smaller under pressure than without."""
    less = [
        f"the {name} reaches only {size_in_words(pressed)} instead of {size_in_words(plain)}"
        for name, pressed, plain in (
            ("receive buffer", under.receive_last, free.receive_last),
            ("send buffer", under.send_last, free.send_last),
            ("receive window", under.window_last, free.window_last),
        )
        if pressed < plain
    ]
    if not less:
        return "grow just as far"
    return f"stay smaller: {'; '.join(less)}"


def _pages(run: Run) -> str:
    return f"{run.sysctl('server', 'net.ipv4.tcp_mem')} pages"


def _sizes(run: Run) -> _Sizes | None:
    """None if a socket was not sampled."""
    client = own_socket(run.samples("client"), "bytes_received")
    server = own_socket(run.samples("server"), "bytes_acked")
    if client.empty or server.empty:
        return None
    receive, send = client["rcvbuf_bytes"].dropna(), server["sndbuf_bytes"].dropna()
    return _Sizes(
        int(receive.iloc[0]),
        int(receive.iloc[-1]),
        int(send.iloc[0]),
        int(send.iloc[-1]),
        int(client["rcv_ssthresh_bytes"].dropna().iloc[-1]),
    )
