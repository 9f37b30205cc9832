"""Article 4: a receive buffer fills, because the receiver does not read, or reads slowly.

One TCP connection. The sender fills the window; the receiver samples its own socket.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from labs.errors import RunFailed
from labs.experiments.windows.paths import (
    ARRIVALS,
    LOOPBACK_RECEIVER,
    LOOPBACK_SENDER,
    End,
    Line,
    arranging,
    undoing,
)
from labs.experiments.windows.settings import LOOPBACK, Settings
from labs.guest.bench import CAPTURE_FILES, MACHINES, PROGRAMS, Bench
from labs.guest.condition import Condition, read_settings
from labs.guest.outcome import Buffer
from labs.guest.testbed.contract import Host, Process
from labs.guest.testbed.link import layout
from labs.guest.units import KIB

HOLD = PROGRAMS / "hold.py"
FILL = PROGRAMS / "fill.py"
SAMPLES = "samples.csv"
TRUESIZES = "truesizes.csv"
CONNECT_TO_WRITE_MS = 1000
"""The article's pause between connecting and the first write."""
AFTER_RESET_S = 1.0
"""By then the last packets of a connection that was reset have arrived."""


@dataclass(frozen=True)
class Ends:
    """The hosts of sender and receiver, and their addresses."""

    sender: Host
    receiver: Host
    sender_address: str
    receiver_address: str


def measure(bench: Bench, condition: Condition) -> None:
    """Set up the path, accept the connection, watch it, and fill the receive buffer."""
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    ends = ends_of(bench, settings)
    with arranged(bench, settings, condition):
        for _ in range(settings.earlier):
            receiver = hold(bench, settings, ends, port)
            sender = filled(bench, settings, ends, port)
            end(bench, ends.receiver, receiver, "hold")
            sender.stop()
            time.sleep(AFTER_RESET_S)
        receiver = hold(bench, settings, ends, port)
        captures = [
            (host, capture(bench, host, device, port)) for host, device in taps(bench, settings)
        ]
        bench.watch(port, settings.sample_ms, capture=())
        sender = filled(bench, settings, ends, port)
        bench.unwatch()
        # Both end at the same time, so that the capture and the samples have the same packets.
        for host, tcpdump in captures:
            end(bench, host, tcpdump, "tcpdump")
        end(bench, ends.receiver, receiver, "hold")
        sender.stop()
        for host, _ in captures:
            for name in CAPTURE_FILES:
                bench.keep(host, bench.path(host, name), name)
        keep_samples(bench, settings, ends)


def ends_of(bench: Bench, settings: Settings) -> Ends:
    """Both ends on the server if the path is loopback, otherwise one on each host."""
    server, client = bench.server, bench.client
    if settings.path == LOOPBACK:
        return Ends(server, server, LOOPBACK_SENDER, LOOPBACK_RECEIVER)
    return Ends(client, server, client.address, server.address)


def taps(bench: Bench, settings: Settings) -> Iterator[tuple[Host, str]]:
    """The hosts and devices on which packets are captured."""
    on_loopback = settings.path == LOOPBACK
    yield bench.server, ARRIVALS if on_loopback else bench.server.device
    if settings.capture_client and not on_loopback:
        yield bench.client, bench.client.device


@contextlib.contextmanager
def arranged(bench: Bench, settings: Settings, condition: Condition) -> Iterator[None]:
    """Set up the path of a condition; on machines it is undone afterwards, and what an earlier run
    left behind is undone first."""
    plan = layout(condition.link)
    server, client = (
        End(host.address, host.device, plan.port(host.name).gateway)
        for host in (bench.server, bench.client)
    )
    lasting = bench.testbed.kind in MACHINES
    undo = tuple(undoing(settings, server, client)) if lasting else ()
    try:
        undone(bench, undo)
        run_lines(bench, arranging(settings, condition.link, server, client))
        yield
    finally:
        undone(bench, undo)


def undone(bench: Bench, lines: Iterable[Line]) -> None:
    """Run the commands that undo others; those that do not apply may fail. They are not recorded
    with the commands of the run, which leave the path in place when they are pasted."""
    for host, argv in lines:
        bench.testbed.hosts()[host].run(argv, log=False, check=False)


def run_lines(bench: Bench, lines: Iterator[Line]) -> None:
    """Run lines in order, those of one host in batches."""
    by_host: dict[str, list[tuple[str, ...]]] = {}
    for host, argv in lines:
        by_host.setdefault(host, []).append(argv)
    for host, argvs in by_host.items():
        bench.testbed.hosts()[host].batch(argvs)


def hold(bench: Bench, settings: Settings, ends: Ends, port: int) -> Process:
    """Start the receiver; return once it listens."""
    reads, said = settings.reads, bench.path(ends.receiver, "hold.txt")
    process = ends.receiver.program(
        HOLD,
        (
            *("--listen", ends.receiver_address, "--port", str(port)),
            *("--mss", str(settings.mss_bytes)),
            *("--rcvbuf", str(settings.rcvbuf_kib * KIB), "--set", settings.set_rcvbuf),
            *("--clamp", str((settings.window_clamp_kib or 0) * KIB)),
            *("--read-bytes", str(reads.read_bytes), "--read-every-us", str(reads.every_us)),
            *("--read-after-ms", str(reads.after_ms)),
            *("--sampled", "1" if settings.sampled else "0"),
            *("--out", bench.path(ends.receiver, SAMPLES)),
            *("--truesizes", bench.path(ends.receiver, TRUESIZES)),
        ),
        stdout=said,
    )

    def ready() -> bool:
        if process.wait(0) is not None:
            raise RunFailed(f"the receiver ended: {bench.last_word(ends.receiver, 'hold.txt')}")
        return bench.listening(ends.receiver, port)

    bench.until(ready, "the receiver")
    return process


def filled(bench: Bench, settings: Settings, ends: Ends, port: int) -> Process:
    """Start the sender; return when its time is over."""
    writes = settings.writes
    sender = ends.sender.program(
        FILL,
        (
            *("--from", ends.sender_address, "--to", ends.receiver_address, "--port", str(port)),
            *("--mss", str(settings.mss_bytes), "--after-ms", str(CONNECT_TO_WRITE_MS)),
            *("--write-bytes", str(writes.write_bytes), "--writes", str(writes.writes)),
            *("--every-us", str(writes.every_us), "--in-flight", str(writes.in_flight)),
            *("--quickack", "1" if writes.quickack else "0"),
        ),
        stdout=bench.path(ends.sender, "fill.txt"),
    )
    if bench.finish(sender, settings.duration_s) is not None:
        raise RunFailed(f"the sender ended: {bench.last_word(ends.sender, 'fill.txt')}")
    return sender


def end(bench: Bench, host: Host, process: Process, name: str) -> None:
    """End a program that writes its file when it ends."""
    if process.stop(5):
        raise RunFailed(f"{name} on {host.name} failed: {bench.last_word(host, f'{name}.txt')}")


def keep_samples(bench: Bench, settings: Settings, ends: Ends) -> None:
    """Keep the receiver's samples, and record the granted buffer."""
    path = bench.path(ends.receiver, SAMPLES)
    bench.keep(ends.receiver, path, SAMPLES)
    bench.keep(ends.receiver, bench.path(ends.receiver, TRUESIZES), TRUESIZES)
    text = ends.receiver.read(path).decode("ascii")
    names, first = (line.split(",") for line in text.splitlines()[:2])
    requested = settings.rcvbuf_kib * KIB or None
    granted = int(first[names.index("rcvbuf")])
    bench.buffers.append(Buffer(ends.receiver.name, "receive", requested, granted))


def capture(bench: Bench, host: Host, device: str, port: int) -> Process:
    """Start tcpdump in immediate mode; return when it captures.

    Times are in microseconds. One timer in 256 fires 256 ns late in virtual time, because
    itimer_next_event (arch/um/kernel/time.c) adds 1 ns to each. Which timer it is depends on the
    number of timers of all programs, and therefore on whether the receiver samples.
    """
    said = bench.path(host, "tcpdump.txt")
    options = ("-n", "-s", "128", "-B", "65536", "-Z", "root", "--immediate-mode")
    into = ("-w", bench.path(host, "capture.pcap"))
    process = host.start(
        ("tcpdump", "-i", device, *options, *into, f"tcp port {port}"), stdout=said
    )
    bench.until(lambda: b"listening on" in host.read(said), f"tcpdump on {host.name}")
    return process
