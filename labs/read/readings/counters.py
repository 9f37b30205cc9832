"""What the kernel's own counters say of a run: payload that arrived, drops, memory pressure."""

from __future__ import annotations

from labs.read.runs.run import Run

IP_HEADER_BYTES = 20
TCP_HEADER_BYTES = 20
TIMESTAMPS_BYTES = 12
# What a SYN-ACK carries beyond a data segment's options: MSS, SACK permitted, window scale.
SYN_BYTES = {True: 8, False: 12}


def received_bytes(run: Run) -> int | None:
    """Payload that TCP of the client received, from its IP counters; None if they are not there.

    IpExtInOctets counts one header for what GRO joined, and IpInReceives counts that as one
    (net/ipv4/ip_input.c ip_rcv_core()), so headers are subtracted a packet as the stack saw it.
    The head of the HTTP reply is payload too; segments that came twice count twice.
    """
    counted = run.nstat("client")
    if "IpExtInOctets" not in counted or "IpInReceives" not in counted:
        return None
    stamped = run.sysctls["client"]["after"].get("net.ipv4.tcp_timestamps", "1") != "0"
    header = IP_HEADER_BYTES + TCP_HEADER_BYTES + TIMESTAMPS_BYTES * stamped
    return counted["IpExtInOctets"] - header * counted["IpInReceives"] - SYN_BYTES[stamped]


def under_memory_pressure(run: Run) -> bool:
    """Whether TCP of a host ran into the limits of tcp_mem (net/ipv4/tcp.c)."""
    return any(
        run.nstat(host).get("TcpExtTCPMemoryPressures", 0) > 0 for host in ("server", "client")
    )


def shaper_drops(run: Run) -> int:
    """Packets that the shaped device's queues dropped during the run, netem's loss included.

    A drop in a leaf is counted by the classes and the root above it once more, so this is the
    largest count that any of them has.
    """
    host = "router" if run.link.asked.shaped_at == "router" else "server"
    if f"{host}/tc-after.txt" not in run.seal.files:
        return 0
    before = {(queue.what, queue.handle): queue.dropped for queue in run.tc(host, "before")}
    return max(
        (
            queue.dropped - before.get((queue.what, queue.handle), 0)
            for queue in run.tc(host, "after")
        ),
        default=0,
    )


def capture_losses(run: Run) -> int:
    """Packets that tcpdump says the kernel did not hand to it, over all captures of the run."""
    lost = 0
    for host in run.hosts:
        name = f"{host}/tcpdump.txt"
        said = run.text(name).splitlines() if name in run.seal.files else []
        counts = [
            int(line.split()[0])
            for line in said
            if "dropped by kernel" in line and line.split()[0].isdigit()
        ]
        lost += counts[-1] if counts else 0
    return lost
