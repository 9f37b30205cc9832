"""What an experiment uses: two hosts, the programs that watch them, and the run's folder."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from labs.errors import RunFailed
from labs.guest.condition import Condition, Setting
from labs.guest.outcome import Buffer, Moment
from labs.guest.testbed.contract import Host, Process, Testbed
from labs.guest.testbed.link import FRAME_BYTES, Link, LinkReport, Measured, checked, counters
from labs.guest.units import SECOND_NS, bytes_carried

PROGRAMS = Path(__file__).resolve().parent / "programs"
PROBE = PROGRAMS / "probe.py"
FETCH = PROGRAMS / "fetch.py"
SAMPLER = PROGRAMS / "sampler.py"
READY_STEP_S = 0.01
TRAIN_PACKETS = 150
# On machines the result must not depend on a processor that is taken away for a moment, nor on the
# shaper's bursts (5 ms at line rate). The kernel queues up to 6,000 packets.
MACHINES = ("ssh", "vagrant")
TRAIN_MS_OF_MACHINES = 200
TRAIN_PACKETS_OF_MACHINES = (300, 6000)
BESIDE = 1
PROBE_BYTES = 4096
# tcpdump reads what the kernel captured in blocks, at the latest after a second. If it is ended
# earlier, the last block is lost.
CAPTURE_FLUSH_S = 1.5
SNAP_BYTES = 128
SAMPLER_FILES = ("samples.bin", "ss.txt", "sampler.json")
CAPTURE_FILES = ("capture.pcap", "tcpdump.txt")


def train_of_machines(rate_mbit: float | None) -> int:
    """The number of packets of a train between machines: 200 ms at the link's rate, in bounds."""
    least, most = TRAIN_PACKETS_OF_MACHINES
    taken = round(bytes_carried(rate_mbit or 0, TRAIN_MS_OF_MACHINES) / FRAME_BYTES)
    return min(max(taken, least), most)


class Bench:
    """The hosts, watchers, marks and files of one run. `say` receives lines about progress."""

    def __init__(
        self, testbed: Testbed, condition: Condition, folder: Path, say: Callable[[str], None]
    ) -> None:
        self.testbed = testbed
        self.condition = condition
        self.folder = folder
        self.marks: list[Moment] = []
        self.buffers: list[Buffer] = []
        self.ended = "complete"
        self._say = say
        self._watchers: list[tuple[Host, Process]] = []

    @property
    def server(self) -> Host:
        return self.testbed.server

    @property
    def client(self) -> Host:
        return self.testbed.client

    @property
    def settings(self) -> Mapping[str, Setting]:
        return self.condition.settings

    def mark(self, name: str) -> None:
        """Name this moment; the samplers take a sample and run `ss`."""
        self.marks.append(Moment(self.server.clock_ns(), name))
        for _, watcher in self._watchers:
            watcher.signal(signal.SIGUSR1)

    def keep(self, host: Host, path: str, name: str) -> None:
        """Copy a file of a host into the run folder as `<host>/<name>`."""
        into = self.folder / host.name / name
        into.parent.mkdir(exist_ok=True)
        host.fetch(path, into)

    def note(self, host: Host, name: str, text: str) -> None:
        """Write a text into the run folder as `<host>/<name>`."""
        into = self.folder / host.name / name
        into.parent.mkdir(exist_ok=True)
        into.write_text(text)

    def path(self, host: Host, name: str) -> str:
        """The path at which a program on `host` may write `name`."""
        return str(host.folder / name)

    def last_word(self, host: Host, name: str) -> str:
        """The last line that a program printed into `name`, or why there is none."""
        said = host.read(self.path(host, name)).decode("utf-8", "replace").strip()
        if said:
            return said.splitlines()[-1]
        try:
            host.write(self.path(host, f"room-{host.clock_ns()}"), bytes(PROBE_BYTES))
        except RunFailed as error:
            return str(error)  # such as: No space left on device
        return "it printed nothing"

    def until(self, ready: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
        """Sleep in steps until `ready()`; RunFailed, naming `what`, if that takes too long."""
        steps = round(timeout_s / READY_STEP_S)
        for _ in range(steps):
            if ready():
                return
            time.sleep(READY_STEP_S)
        raise RunFailed(f"{what} was not ready within {timeout_s:g} s")

    def listening(self, host: Host, port: int) -> bool:
        """Whether a program on `host` listens on a TCP port (state 0A of /proc/net/tcp)."""
        rows = host.read("/proc/net/tcp").decode("ascii").splitlines()[1:]
        local = f":{port:04X}"
        return any(row.split()[1].endswith(local) and row.split()[3] == "0A" for row in rows)

    def serve(self, server: Host, argv: Sequence[str], port: int, log: str) -> Process:
        """Start a server program and return once it listens; else RunFailed with its last line."""
        process = server.start(argv, stdout=self.path(server, log))

        def ready() -> bool:
            if process.wait(0) is not None:
                raise RunFailed(
                    f"{argv[0]} ended before it listened: {self.last_word(server, log)}"
                )
            return self.listening(server, port)

        self.until(ready, f"{argv[0]} on {server.name}")
        return process

    def finish(self, process: Process, limit_s: float) -> int | None:
        """Wait up to `limit_s` for a program, and report the elapsed time once per second."""
        started_ns = self.server.clock_ns()
        while (left_s := limit_s - (self.server.clock_ns() - started_ns) / SECOND_NS) > 0:
            exit_code = process.wait(min(1.0, left_s))
            if exit_code is not None:
                return exit_code
            self._say(f"{(self.server.clock_ns() - started_ns) / SECOND_NS:.0f} s")
        return None

    # The frame around a measurement: the link, the watchers, the counters.

    def check_link(self, link: Link) -> LinkReport:
        """Measure RTT and rate through the shaped class, and compare both with the request."""
        machines = self.testbed.kind in MACHINES
        packets = train_of_machines(link.rate_mbit) if machines else TRAIN_PACKETS
        beside = ("--beside", str(link.port + BESIDE)) if machines else ()
        serve = self.server.program(
            PROBE,
            (
                "serve",
                "--listen",
                self.server.address,
                "--port",
                str(link.port),
                "--packets",
                str(packets),
                *beside,
            ),
        )
        self.until(lambda: self.listening(self.server, link.port), "the link check")
        out = self.path(self.client, "probe.json")
        measure = self.client.program(
            PROBE,
            (
                "measure",
                "--to",
                self.server.address,
                "--port",
                str(link.port),
                "--packets",
                str(packets),
                "--out",
                out,
                *beside,
            ),
            stdout=self.path(self.client, "probe.txt"),
        )
        # Time for the handshakes, closing their connections, and the train.
        exit_code = self.finish(measure, 30 + 20 * (link.delay_ms + 3 * link.jitter_ms) / 1000)
        if exit_code == 0:
            serve.wait(10)
        serve.stop()
        if exit_code != 0:
            measure.stop()
            raise RunFailed(f"the link check failed: {self.last_word(self.client, 'probe.txt')}")
        found = json.loads(self.client.read(out))
        self.keep(self.client, out, "probe.json")
        rate = found["rate_mbit"] if link.rate_mbit is not None else None
        measured = Measured(
            round(found["rtt_ms"], 4),
            None if rate is None else round(rate, 3),
            beside_ms=round(found["beside_ms"], 4) if machines else None,
        )
        return checked(link, measured)

    def watch(
        self,
        port: int,
        sample_ms: int,
        capture: Sequence[Host],
        *,
        also: Sequence[int] = (),
        snap_bytes: int = SNAP_BYTES,
    ) -> None:
        """Start the sampler on both hosts, and tcpdump on the hosts of `capture`, which keeps
        `snap_bytes` of each packet of `port` and of the ports `also`."""
        for host in capture:
            self._capture(host, (port, *also), snap_bytes)
        for host in (self.server, self.client):
            args = (
                "--port",
                str(port),
                "--interval-ms",
                str(sample_ms),
                "--ss-interval-ms",
                "1000",
                "--samples",
                self.path(host, "samples.bin"),
                "--ss",
                self.path(host, "ss.txt"),
                "--stats",
                self.path(host, "sampler.json"),
            )
            watcher = host.program(SAMPLER, args, stdout=self.path(host, "sampler.txt"))
            self._watchers.append((host, watcher))
        for host in (self.server, self.client):
            self.until(partial(self._exists, host, "samples.bin"), f"the sampler on {host.name}")

    def _exists(self, host: Host, name: str) -> bool:
        try:
            host.read(self.path(host, name))
        except RunFailed:
            return False
        return True

    def _capture(self, host: Host, ports: Sequence[int], snap_bytes: int) -> None:
        said = self.path(host, "tcpdump.txt")
        process = host.start(
            (
                "tcpdump",
                "-i",
                host.device,
                "-n",
                "-s",
                str(snap_bytes),
                "-B",
                "65536",
                "-Z",
                "root",
                "--time-stamp-precision=nano",
                "-w",
                self.path(host, "capture.pcap"),
                " or ".join(f"tcp port {port}" for port in ports),
            ),
            stdout=said,
        )
        self._watchers.append((host, process))
        self.until(lambda: b"listening on" in host.read(said), f"tcpdump on {host.name}")

    def unwatch(self) -> None:
        """Stop the watchers (each takes a last sample) and copy their files into the run folder.
        RunFailed if one of them did not end well: its files are incomplete."""
        samplers = [one for one in self._watchers if one[1].argv[0] != "tcpdump"]
        captures = [one for one in self._watchers if one[1].argv[0] == "tcpdump"]
        for host, watcher in samplers:
            self._end(host, watcher, "sampler")
        if captures:
            time.sleep(CAPTURE_FLUSH_S)
        for host, watcher in captures:
            self._end(host, watcher, "tcpdump")
        for files, watchers in ((SAMPLER_FILES, samplers), (CAPTURE_FILES, captures)):
            for host, _ in watchers:
                for name in files:
                    self.keep(host, self.path(host, name), name)
        self._watchers.clear()

    def _end(self, host: Host, watcher: Process, name: str) -> None:
        exit_code = watcher.stop(5)
        if exit_code:
            raise RunFailed(
                f"{name} on {host.name} ended with exit code {exit_code}: "
                f"{self.last_word(host, f'{name}.txt')}"
            )

    def count(self, when: str) -> None:
        """Store each host's TCP counters and the shaper's, as `nstat-` and `tc-<when>.txt`."""
        for host in self.testbed.hosts().values():
            self.note(host, f"nstat-{when}.txt", host.run(("nstat", "-asz"), log=False).text)
            lines = counters(host.device)
            asked = "".join(f"{' '.join(line)}\n" for line in lines)
            said = host.run(("tc", "-s", "-batch", "-"), stdin=asked.encode(), log=False).text
            heads = "".join(f"$ tc -s {' '.join(line)}\n" for line in lines)
            self.note(host, f"tc-{when}.txt", heads + said)
