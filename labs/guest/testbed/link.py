"""The link from server to client: what is requested, the ip and tc lines, what was measured.

The link is an htb tree on the sender's egress, a filter that directs packets from the server's port
to class 1:10, and netem (or, without delay, fq_codel) as the queue of that class. Only that port is
shaped; ping does not pass through the class.

The hosts are on one wire, or on two with a router between them. Addresses and hardware addresses
are fixed, so that a run repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil, sqrt
from typing import Any

from labs.guest.units import KIB, bytes_carried

FRAME_BYTES = 1514
"""A full Ethernet frame as the shaper counts it (MTU 1500 plus 14 bytes of header)."""

MSS_BYTES = 1448
"""Payload of a full segment: MTU 1500 less IPv4 (20), TCP (20) and timestamps (12)."""

BURST_BYTES = 20 * KIB
"""The burst of the shaper by default."""

DEVICE = "eth0"
"""The device of a host that is a network namespace."""

# netem works in ticks of 64 ns and htb in steps of 8 ns per byte. What remains is the time of one
# frame on the wire and, on machines, the delay of the path itself.
RTT_TOLERANCE = 0.02
RTT_FLOOR_MS = 1.0
RATE_TOLERANCE = 0.05

Argv = tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """The requested link.

    `rate_mbit` None: no rate limit. `queue_packets` None: netem's default of 1,000. `burst_bytes`
    None: 20 KiB plus what the link carries while the shaper's timer may be late; a number is used
    as it is.
    """

    rate_mbit: float | None = None
    delay_ms: float = 0.0
    loss_pct: float = 0.0
    jitter_ms: float = 0.0
    shaped_at: str = "server"
    queue_packets: int | None = None
    port: int = 80
    burst_bytes: int | None = None

    @property
    def shaped(self) -> bool:
        return self.rate_mbit is not None or self.uses_netem

    @property
    def uses_netem(self) -> bool:
        return bool(self.delay_ms or self.loss_pct or self.jitter_ms)


def queue_packets(rate_mbit: float, delay_ms: float) -> int:
    """A netem limit that exceeds the BDP: one and a half BDP, at least 1,000 packets."""
    return max(1000, ceil(1.5 * bytes_carried(rate_mbit, delay_ms) / FRAME_BYTES))


def number(value: float) -> str:
    """A number for tc, without trailing zeros or an exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def queue(link: Link) -> Argv:
    """The queue of the shaped class: netem with the options of the link, or fq_codel."""
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


def size(value_bytes: int) -> str:
    """A size for tc: whole KiB as `20k`, anything else in bytes."""
    return str(value_bytes) if value_bytes % KIB else f"{value_bytes // KIB}k"


def bursts(link: Link, late_ms: float) -> Argv:
    """The bursts of the shaped class.

    htb grants a class the tokens that it missed only up to burst and cburst (net/sched/sch_htb.c
    htb_accnt_tokens, htb_accnt_ctokens), and tc's default for cburst is one packet. A shaper whose
    timer is late therefore loses rate, unless both include what the link carries in that time.
    """
    if link.burst_bytes is not None or link.rate_mbit is None or not late_ms:
        return ("burst", size(link.burst_bytes or BURST_BYTES))
    allowed = str(BURST_BYTES + round(bytes_carried(link.rate_mbit, late_ms)))
    return ("burst", allowed, "cburst", allowed)


def shaping(link: Link, device: str, late_ms: float = 0.0) -> tuple[Argv, ...]:
    """The tc lines for `device`, in order; none for a link that is not shaped.

    `late_ms` is how late a timer of the machine may fire; in virtual time none is late.
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
            "class", "parent", "1:1", "classid", "1:10", "htb", "rate", rate, *bursts(link, late_ms)
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
    """The line that turns segmentation offloads off, so that a queue counts packets of one MSS."""
    return ("ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off")


def counters(device: str) -> tuple[Argv, ...]:
    """The lines that read the counters of the shaper, for one `tc -s -batch -`."""
    return (("qdisc", "show", "dev", device), ("class", "show", "dev", device))


@dataclass(frozen=True)
class Measured:
    """The result of the link check; None for what was not measured.

    `beside_ms` is the RTT of the path outside the shaped class, measured between machines.
    """

    rtt_ms: float
    rate_mbit: float | None
    loss_pct: float | None = None
    beside_ms: float | None = None

    def as_json(self) -> dict[str, float | None]:
        """The figures as they are stored; `beside_ms` only if it was measured."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name != "beside_ms" or value is not None
        }


@dataclass(frozen=True)
class LinkReport:
    """The link check of a run: requested, measured, and every deviation beyond its tolerance."""

    asked: Link
    measured: Measured
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the link is within all tolerances."""
        return not self.problems

    @property
    def verdict(self) -> str:
        """For people: `as asked`, or `not as asked: ` and the problems."""
        return "as asked" if self.ok else f"not as asked: {'; '.join(self.problems)}"

    def as_json(self) -> dict[str, Any]:
        """The report as part of run.json."""
        return {
            "asked": asdict(self.asked),
            "measured": self.measured.as_json(),
            "ok": self.ok,
            "problems": list(self.problems),
        }


def report_from_json(data: Mapping[str, Any]) -> LinkReport:
    """The report that `as_json` wrote."""
    return LinkReport(Link(**data["asked"]), Measured(**data["measured"]), tuple(data["problems"]))


def checked(link: Link, measured: Measured, packets: int = 0) -> LinkReport:
    """The report on a link; each problem says what differs and what was allowed.

    Loss is judged after the run, over the `packets` that were offered: four standard deviations
    of chance. With jitter the rate is not judged: it spreads a train over more than its own
    length.
    """
    found = (
        _rtt_problem(link, measured),
        _rate_problem(link, measured),
        _loss_problem(link, measured, packets),
    )
    return LinkReport(link, measured, tuple(problem for problem in found if problem))


def _rtt_problem(link: Link, measured: Measured) -> str:
    beside_ms = measured.beside_ms or 0.0
    # The path's own delay varies, from none to three times what was measured.
    beyond_ms = measured.rtt_ms - beside_ms - link.delay_ms
    own_ms = beside_ms if beyond_ms < 0 else 2 * beside_ms
    allowed_ms = max(RTT_FLOOR_MS, RTT_TOLERANCE * link.delay_ms, own_ms) + 3 * link.jitter_ms
    if abs(beyond_ms) <= allowed_ms:
        return ""
    own = f" above the path's own {beside_ms:.2f}" if beside_ms else ""
    return f"RTT {measured.rtt_ms:.2f} ms, asked {link.delay_ms:g} within {allowed_ms:.2g} ms{own}"


def _rate_problem(link: Link, measured: Measured) -> str:
    if link.rate_mbit is None or link.jitter_ms:
        return ""
    if measured.rate_mbit is None:
        return "the rate could not be measured"
    if abs(measured.rate_mbit - link.rate_mbit) <= RATE_TOLERANCE * link.rate_mbit:
        return ""
    return (
        f"rate {measured.rate_mbit:.1f} Mbit/s, asked {link.rate_mbit:g} "
        f"within {100 * RATE_TOLERANCE:g} %"
    )


def _loss_problem(link: Link, measured: Measured, packets: int) -> str:
    if not packets or measured.loss_pct is None:
        return ""
    allowed = 400 * sqrt(link.loss_pct / 100 * (1 - link.loss_pct / 100) / packets)
    if abs(measured.loss_pct - link.loss_pct) <= allowed:
        return ""
    return f"{measured.loss_pct:.3g} % lost, asked {link.loss_pct:g} within {allowed:.2g} points"


@dataclass(frozen=True)
class Port:
    """One end of a wire: its host, device, addresses, and the gateway of the host if any."""

    host: str
    device: str
    address: str
    mac: str
    gateway: str | None = None


@dataclass(frozen=True)
class Layout:
    """The wires of a testbed; the first port is the server's and the last the client's."""

    wires: tuple[tuple[Port, Port], ...]

    @property
    def ports(self) -> tuple[Port, ...]:
        return tuple(port for wire in self.wires for port in wire)

    def port(self, host: str) -> Port:
        """The port of a host; of the router's two ports, the shaped one."""
        return next(port for port in (self.shaped_port(), *self.ports) if port.host == host)

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(port.host for port in self.ports))

    def shaped_port(self) -> Port:
        """The port whose egress is shaped: the one opposite the client."""
        return self.wires[-1][0]


DIRECT = Layout(
    (
        (
            Port("server", DEVICE, "10.77.0.1", "02:00:00:00:00:01"),
            Port("client", DEVICE, "10.77.0.2", "02:00:00:00:00:02"),
        ),
    )
)
ROUTED = Layout(
    (
        (
            Port("server", DEVICE, "10.77.1.1", "02:00:00:00:01:01", gateway="10.77.1.254"),
            Port("router", "eth0", "10.77.1.254", "02:00:00:00:01:fe"),
        ),
        (
            Port("router", "eth1", "10.77.2.254", "02:00:00:00:02:fe"),
            Port("client", DEVICE, "10.77.2.1", "02:00:00:00:02:01", gateway="10.77.2.254"),
        ),
    )
)


def layout(link: Link) -> Layout:
    """Two hosts on one wire, or with a router between them if the link is shaped there."""
    return ROUTED if link.shaped_at == "router" else DIRECT


def wiring(plan: Layout, names: dict[str, str]) -> tuple[Argv, ...]:
    """The ip lines that create namespaces and wires; `names` maps hosts to namespaces."""
    lines: list[Argv] = [("ip", "netns", "add", names[host]) for host in plan.hosts]
    for left, right in plan.wires:
        lines.append(
            (
                "ip",
                "link",
                "add",
                left.device,
                "address",
                left.mac,
                "netns",
                names[left.host],
                "type",
                "veth",
                "peer",
                "name",
                right.device,
                "address",
                right.mac,
                "netns",
                names[right.host],
            )
        )
    return tuple(lines)


def addressing(plan: Layout, host: str) -> tuple[Argv, ...]:
    """The ip lines to run inside one host."""
    lines: list[Argv] = [("ip", "link", "set", "dev", "lo", "up")]
    for port in plan.ports:
        if port.host != host:
            continue
        lines.append(("ip", "address", "add", f"{port.address}/24", "dev", port.device))
        lines.append(("ip", "link", "set", "dev", port.device, "up"))
        if port.gateway:
            lines.append(("ip", "route", "add", "default", "via", port.gateway))
    return tuple(lines)


def linking(plan: Layout, link: Link) -> dict[str, tuple[Argv, ...]]:
    """The lines that set up the link, per host: offloads off with a router, then the shaper."""
    lines: dict[str, tuple[Argv, ...]] = {}
    if link.shaped_at == "router":
        for port in plan.ports:
            lines[port.host] = (*lines.get(port.host, ()), offloads_off(port.device))
    shaped = plan.shaped_port()
    lines[shaped.host] = (*lines.get(shaped.host, ()), *shaping(link, shaped.device))
    return {host: argvs for host, argvs in lines.items() if argvs}
