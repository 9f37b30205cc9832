"""The two hosts, the wire between them, and the router where the link asks for one.

Pure builders of ip lines; addresses and hardware addresses are fixed so that a run repeats.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.testbed.link import Argv, Link, offloads_off, shaping

DEVICE = "eth0"


@dataclass(frozen=True)
class Port:
    """One end of a wire: the host it is in, its device, addresses, and the next hop if any."""

    host: str
    device: str
    address: str
    mac: str
    gateway: str | None = None


@dataclass(frozen=True)
class Layout:
    """The wires of a testbed; the first and the last port are the server's and the client's."""

    wires: tuple[tuple[Port, Port], ...]

    @property
    def ports(self) -> tuple[Port, ...]:
        return tuple(port for wire in self.wires for port in wire)

    def port(self, host: str) -> Port:
        """A host's own port; of the router's two, the one whose way out is shaped."""
        return next(port for port in (self.shaped_port(), *self.ports) if port.host == host)

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(port.host for port in self.ports))

    def shaped_port(self) -> Port:
        """The port whose way out is shaped: the last one before the client's wire."""
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
    """Two hosts on one wire, or a router between them when the link is shaped there."""
    return ROUTED if link.shaped_at == "router" else DIRECT


def wiring(plan: Layout, names: dict[str, str]) -> tuple[Argv, ...]:
    """The ip lines that make the namespaces and the wires; `names` maps hosts to namespaces."""
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
    """The ip lines to be given inside one host."""
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
    """For each host the lines that make the link: offloads off with a router, then the shaper."""
    lines: dict[str, tuple[Argv, ...]] = {}
    if link.shaped_at == "router":
        for port in plan.ports:
            lines[port.host] = (*lines.get(port.host, ()), offloads_off(port.device))
    shaped = plan.shaped_port()
    lines[shaped.host] = (*lines.get(shaped.host, ()), *shaping(link, shaped.device))
    return {host: argvs for host, argvs in lines.items() if argvs}
