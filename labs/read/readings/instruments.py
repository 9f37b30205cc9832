"""Whether the instruments of a run agree (client, kernel counters, capture; `ss` and sampler), and
what they missed or lost: memory pressure, drops in queues, packets that tcpdump did not get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy
import pandas
from pandas import DataFrame

from labs.guest.units import SECOND_NS
from labs.read import capture
from labs.read.readings.goodput import Download, own_socket, received_bytes
from labs.read.runs.run import Run

ALLOWED_PCT = 0.5


@dataclass(frozen=True)
class Carried:
    """What one TCP port sent in a capture, over all its connections: its payload, retransmissions
    counted once, and the time from the first segment with payload to the last, by the capture's
    clock."""

    payload_bytes: int
    took_ns: int


def carried(path: Path, port: int) -> Carried:
    """Count what TCP port `port` sent in a capture. Raises what `labs.capture.read` raises."""
    segments, ends = capture.read(path), capture.connections(path)
    if segments.empty:
        return Carried(0, 0)
    ports = ends[["client_port", "server_port"]].to_numpy()
    from_port = ports[segments["connection"], segments["direction"]] == port
    sent = segments[from_port & (segments["payload_bytes"] > 0)]
    if sent.empty:
        return Carried(0, 0)
    # Relative sequence numbers of payload begin at 1.
    ends_at = sent["seq_rel"] + sent["payload_bytes"] - 1
    reached = ends_at.groupby([sent["connection"], sent["direction"]]).max().clip(lower=0)
    times = sent["time_ns"]
    return Carried(int(reached.sum()), int(times.iloc[-1] - times.iloc[0]))


def goodputs(run: Run, seen: Download) -> dict[str, float]:
    """Goodput in bytes/s by each instrument that the run has.

    Counters have no clock: their bytes are divided by the client's time. They are omitted if they
    replace bytes that the client could not report. The capture at the client gives two figures: its
    bytes by the client's time, and by its own, from the first segment with payload to the last.
    """
    if seen.goodput_bytes_s is None:
        return {}
    by_instrument = {"client": seen.goodput_bytes_s}
    counted = None if seen.counted else received_bytes(run)
    if counted is not None:
        by_instrument["counters"] = counted / seen.duration_s
    path = run.capture("client")
    if path is not None:
        packets = carried(path, run.link.asked.port)
        by_instrument["capture"] = packets.payload_bytes / seen.duration_s
        if packets.took_ns > 0:
            took_s = packets.took_ns / SECOND_NS
            by_instrument["capture's own clock"] = packets.payload_bytes / took_s
    return by_instrument


def apart_pct(by_instrument: dict[str, float]) -> float | None:
    """The largest deviation of the other instruments from the client, in % of its figure."""
    others = [value for name, value in by_instrument.items() if name != "client"]
    if "client" not in by_instrument or not others:
        return None
    return 100 * max(abs(value / by_instrument["client"] - 1) for value in others)


# What both say in the same unit, of all that a timeline shows and of what moves fastest.
COMPARED = (
    "recv_q_bytes",
    "send_q_bytes",
    "rmem_alloc_bytes",
    "rcvbuf_bytes",
    "wmem_queued_bytes",
    "sndbuf_bytes",
    "snd_cwnd_segments",
    "snd_mss_bytes",
    "unacked_segments",
    "snd_wnd_bytes",
    "rcv_ssthresh_bytes",
    "rcv_space_bytes",
    "bytes_acked",
    "bytes_received",
    "notsent_bytes",
)
OF_SS = "_of_ss"


def instants(run: Run, host: str, counter: str) -> DataFrame:
    """One row per moment at which `ss` printed and the sampler sampled the download's socket.

    Columns: `at_ns`, `differs`, those in `COMPARED` that the samples have, and those that `ss`
    printed, with `_of_ss` appended.
    `differs` names the fields that are not equal, separated by blanks; "" for none. ss leaves out
    what is zero. `counter` tells the socket (see `own_socket`).
    """
    shared = ["at_ns", "local_port", "peer_port"]
    samples = own_socket(run.samples(host), counter, [*shared, *COMPARED])
    shown = run.ss(host)
    if samples.empty or not set(shared) <= set(shown):
        return pandas.DataFrame({"at_ns": [], "differs": []})
    fields = [name for name in COMPARED if name in samples and name in shown]
    both = samples.merge(shown[[*shared, *fields]], on=shared, suffixes=("", OF_SS))
    words = numpy.full(len(both), "", dtype=object)
    for name in fields:
        sampled, printed = both[name].to_numpy(), both[name + OF_SS].to_numpy()
        left_out = pandas.isna(printed) & ((sampled == 0) | pandas.isna(sampled))
        words[~((sampled == printed) | left_out)] += f" {name}"
    return both.assign(differs=[word.lstrip() for word in words])


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
    """Packets that the kernel dropped before tcpdump got them, over all captures of the run."""
    lost = 0
    for host in run.hosts:
        name = f"{host}/tcpdump.txt"
        lines = run.text(name).splitlines() if name in run.seal.files else []
        counts = [
            int(line.split()[0])
            for line in lines
            if "dropped by kernel" in line and line.split()[0].isdigit()
        ]
        lost += counts[-1] if counts else 0
    return lost
