"""The link: what is asked of the path from server to client, and the tc lines that make it.

The shape is the one of article 1: an htb tree on the sender's way out, a filter that sends the
server's port to class 1:10, and netem (or, without delay, fq_codel) as that class's queue. Only
that port is shaped: ping does not pass the class.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil, sqrt

FRAME_BYTES = 1514
"""A full Ethernet frame as the shaper counts it (MTU 1500 and 14 bytes of header)."""

ARTICLE_RATE_MBIT = 1000.0

Argv = tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """What is asked of the link. `rate_mbit` None: not shaped. `queue_packets` None: netem's own
    default of 1,000, which is what the article's commands leave it at."""

    rate_mbit: float | None = None
    delay_ms: float = 0.0
    loss_pct: float = 0.0
    jitter_ms: float = 0.0
    at: str = "server"
    queue_packets: int | None = None
    port: int = 80

    @property
    def shaped(self) -> bool:
        return self.rate_mbit is not None or self.uses_netem

    @property
    def uses_netem(self) -> bool:
        return bool(self.delay_ms or self.loss_pct or self.jitter_ms)


def queue_packets(rate_mbit: float, delay_ms: float) -> int:
    """A netem limit that a full BDP does not fill: one and a half BDP, at least 1,000 packets."""
    return max(1000, ceil(1.5 * rate_mbit * 1e6 / 8 * delay_ms / 1e3 / FRAME_BYTES))


def number(value: float) -> str:
    """A number as tc reads it: no trailing zeros, no exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def queue(link: Link) -> Argv:
    """The queue of the shaped class: netem with what the link asks, or fq_codel without delay."""
    if not link.uses_netem:
        return ("fq_codel",)
    words: Argv = ("netem", "delay", f"{number(link.delay_ms)}ms")
    if link.jitter_ms:
        words += (f"{number(link.jitter_ms)}ms",)
    if link.loss_pct:
        words += ("loss", f"{number(link.loss_pct)}%")
    if link.queue_packets is not None:
        words += ("limit", str(link.queue_packets))
    return words


def bursts(rate_mbit: float, late_ms: float) -> Argv:
    """What the shaped class may send at once: 20 kB as in the article, and where the shaper may be
    woken late, what the line takes in that time.

    htb gives a class what it missed up to burst and cburst and no more (net/sched/sch_htb.c
    htb_accnt_tokens, htb_accnt_ctokens), and tc's own cburst is one packet. So a shaper that is
    late loses rate. The article's rate keeps the article's words, late or not.
    """
    if not late_ms or rate_mbit == ARTICLE_RATE_MBIT:
        return ("burst", "20k")
    size = str(20 * 1024 + round(rate_mbit * 1e3 / 8 * late_ms))
    return ("burst", size, "cburst", size)


def shaping(link: Link, device: str, late_ms: float = 0.0) -> tuple[Argv, ...]:
    """The tc lines for `device`, in order; none for a link that is not shaped.

    `late_ms` is how late a timer of the machine may be; on virtual time none is.
    """
    if not link.shaped:
        return ()
    if link.rate_mbit is None:
        return (("tc", "qdisc", "add", "dev", device, "root", "handle", "10:", *queue(link)),)
    unshaped = "20000mbit"
    rate = f"{number(link.rate_mbit)}mbit"

    def add(kind: str, *words: str) -> Argv:
        return ("tc", kind, "add", "dev", device, *words)

    return (
        add("qdisc", "root", "handle", "1:", "htb", "default", "100"),
        add("class", "parent", "1:", "classid", "1:1", "htb", "rate", unshaped, "burst", "20k"),
        add(
            "class",
            "parent",
            "1:1",
            "classid",
            "1:10",
            "htb",
            "rate",
            rate,
            *bursts(link.rate_mbit, late_ms),
        ),
        add("class", "parent", "1:1", "classid", "1:100", "htb", "rate", unshaped, "burst", "20k"),
        add("qdisc", "parent", "1:10", "handle", "10:", *queue(link)),
        add("qdisc", "parent", "1:100", "handle", "100:", "fq_codel"),
        add(
            "filter",
            "protocol",
            "ip",
            "parent",
            "1:0",
            "prio",
            "1",
            "u32",
            "match",
            "ip",
            "sport",
            str(link.port),
            "0xffff",
            "flowid",
            "1:10",
        ),
    )


def offloads_off(device: str) -> Argv:
    """The line that keeps a device from joining packets, so that a queue counts real ones."""
    return ("ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off")


def counters(device: str) -> tuple[Argv, ...]:
    """The lines that read what the shaper counted."""
    return (
        ("tc", "-s", "qdisc", "show", "dev", device),
        ("tc", "-s", "class", "show", "dev", device),
    )


@dataclass(frozen=True)
class Measured:
    """What the check before a run found. None: not measured, or nothing to measure.

    `beside_ms` is the RTT that the path has without the link; machines have one worth telling.
    """

    rtt_ms: float
    rate_mbit: float | None
    loss_pct: float | None = None
    beside_ms: float | None = None

    def as_json(self) -> dict[str, float | None]:
        """What stands in a run: the path's own RTT only where it was measured."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name != "beside_ms" or value is not None
        }


# netem works in ticks of 64 ns and htb in 8 ns per byte steps; what is left is one frame's time
# on the wire and, on machines, the path's own delay.
RTT_TOLERANCE = 0.02
RTT_FLOOR_MS = 1.0
RATE_TOLERANCE = 0.05


def verdict(link: Link, measured: Measured, packets: int = 0) -> str:
    """'as asked', or 'not as asked: ...' with what differs and what was allowed.

    Loss is judged after the run, over the `packets` that were offered: four standard deviations
    of chance. Under jitter the rate is not judged: a train spreads by more than its own length.
    """
    complaints = []
    beside_ms = measured.beside_ms or 0.0
    # What a path takes by itself is no constant: nothing this time, or three times as much.
    beyond_ms = measured.rtt_ms - beside_ms - link.delay_ms
    own_ms = beside_ms if beyond_ms < 0 else 2 * beside_ms
    allowed_ms = max(RTT_FLOOR_MS, RTT_TOLERANCE * link.delay_ms, own_ms) + 3 * link.jitter_ms
    if abs(beyond_ms) > allowed_ms:
        own = f" above the path's own {beside_ms:.2f}" if beside_ms else ""
        complaints.append(
            f"RTT {measured.rtt_ms:.2f} ms, asked {link.delay_ms:g} within {allowed_ms:.2g} ms{own}"
        )
    if link.rate_mbit is not None and not link.jitter_ms:
        allowed = RATE_TOLERANCE * link.rate_mbit
        if measured.rate_mbit is None:
            complaints.append("the rate could not be measured")
        elif abs(measured.rate_mbit - link.rate_mbit) > allowed:
            complaints.append(
                f"rate {measured.rate_mbit:.1f} Mbit/s, asked {link.rate_mbit:g} "
                f"within {100 * RATE_TOLERANCE:g} %"
            )
    if packets and measured.loss_pct is not None:
        allowed = 400 * sqrt(link.loss_pct / 100 * (1 - link.loss_pct / 100) / packets)
        if abs(measured.loss_pct - link.loss_pct) > allowed:
            complaints.append(
                f"{measured.loss_pct:.3g} % lost, asked {link.loss_pct:g} "
                f"within {allowed:.2g} points"
            )
    return "not as asked: " + "; ".join(complaints) if complaints else "as asked"
