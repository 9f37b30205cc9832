"""Plays scenarios between two hosts inside a virtual kernel, and captures them at three places.

    python3 -I -S guest.py          reads plan.json in the working folder, writes beside it

The client and the server are network namespaces. Between them a program forwards frames: it delays
them, limits the rate, and drops what the scenario names, so that the cause of every wait is known.
It writes what it sees beside the client, in the middle and beside the server as pcap files, and
what it dropped, with what the programs on both hosts did and when, as `truth.json`.
Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

CLONE_NEWNET = 0x40000000
SOL_PACKET, PACKET_VNET_HDR = 263, 15
SO_RCVBUFFORCE = 33
SIOCETHTOOL = 0x8946
STSO, SGSO, SGRO = 0x1F, 0x24, 0x2C
VNET_BYTES, SNAP_BYTES, ETHERNET_BYTES = 10, 128, 14
ADDRESSES = ("10.0.0.1", "10.0.0.2")
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
HOSTS = ("client", "server")
PLACES = ("client", "between", "server")
FIN, SYN, RST, ACK = 1, 2, 4, 16
PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP_BYTES, 1)
FILTERED = 13  # communication administratively prohibited (RFC 1812 5.2.7.1)
libc = ctypes.CDLL(None, use_errno=True)


def enter(host: str) -> None:
    """Move this process into the host's namespace."""
    with open(f"/run/netns/{host}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def inside(host: str) -> Iterator[None]:
    """Run the block in the host's namespace."""
    with open("/proc/self/ns/net") as back:
        enter(host)
        try:
            yield
        finally:
            libc.setns(back.fileno(), CLONE_NEWNET)


def ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True)


def offload(device: str, command: int, on: bool) -> None:
    """Switch an offload of a device in the current namespace (ethtool's ioctl)."""
    value = ctypes.create_string_buffer(struct.pack("II", command, on))
    request = struct.pack("16sP", device.encode(), ctypes.addressof(value))
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def set_up() -> None:
    """Two hosts, each with one end of a pair of devices; the other ends remain here."""
    os.makedirs("/run/netns", exist_ok=True)
    for number, host in enumerate(HOSTS):
        ip("netns", "add", host)
        ip("link", "add", f"m{number}", "type", "veth", "peer", "name", "eth0", "netns", host)
        ip("link", "set", f"m{number}", "up")
        ip("-n", host, "link", "set", "eth0", "address", MACS[number])
        ip("-n", host, "addr", "add", f"{ADDRESSES[number]}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            ip("-n", host, "link", "set", device, "up")
        ip(
            "-n",
            host,
            "neigh",
            "add",
            ADDRESSES[1 - number],
            "lladdr",
            MACS[1 - number],
            "dev",
            "eth0",
        )


def sysctls(host: str, values: dict[str, str]) -> dict[str, str]:
    """Set the host's sysctls of net.ipv4, and return what they were."""
    before = {}
    with inside(host):
        for name, value in values.items():
            file = Path("/proc/sys/net/ipv4", name)
            before[name] = file.read_text()
            file.write_text(value)
    return before


def counters(host: str) -> dict[str, int]:
    """The host's counters of TcpExt, by name."""
    with inside(host):
        lines = Path("/proc/self/net/netstat").read_text().splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("TcpExt:"))
    return dict(zip(names, map(int, values), strict=True))


@dataclass
class Rule:
    """Which packets of one direction (0 from the client) the forwarder drops, delays or doubles.

    `kind` is syn, synack, data, ack, fin or any. `segments` numbers new data segments from 0;
    `times` is how many transmissions of each are taken; `from_ms` and `to_ms` count from the first
    packet of the scenario.
    """

    direction: int
    kind: str = "any"
    action: str = "drop"
    segments: list[int] | None = None
    after_segment: int | None = None
    times: int = 1 << 30
    from_ms: float = 0
    to_ms: float = 1e12
    by_ms: float = 0
    copies: dict[int, int] = field(default_factory=dict)


@dataclass
class Seen:
    """What a frame carries, as far as rules need it."""

    kind: str
    seq: int
    length: int
    segment: int  # the number of its data segment, -1 without data


class Forwarder:
    """Forwards frames between two devices of this namespace, and captures them."""

    def __init__(self, scenario: dict[str, Any], folder: Path) -> None:
        self.scenario = scenario
        self.rules = [Rule(**rule) for rule in scenario.get("rules", [])]
        self.rate = scenario.get("rate_mbit", 0) * 1e6 / 8 / 1e9  # bytes per ns; 0: unlimited
        self.delay_ns = int(scenario["rtt_ms"] * 1e6 / 2)
        self.queue_bytes = scenario.get("queue_bytes", 1 << 30)
        self.free_ns, self.queued = [0, 0], [0, 0]
        self.high: list[dict[int, int]] = [{}, {}]
        self.segments: list[dict[tuple[int, int], int]] = [{}, {}]
        self.log: list[dict[str, Any]] = []
        self.first_ns = 0
        self.heap: list[tuple[int, int, str, int, bytes]] = []
        self.count = 0
        self.files = [self._opened(folder, place) for place in PLACES]
        self.sockets = []
        for number in range(2):
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            tap.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
            tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
            tap.bind((f"m{number}", 3))
            tap.setblocking(False)
            self.sockets.append(tap)

    @staticmethod
    def _opened(folder: Path, place: str) -> BinaryIO:
        file = (folder / f"{place}.pcap").open("wb")
        file.write(PCAP_HEADER)
        return file

    def run(self, until: Any) -> None:
        """Forward until `until()` says that the scenario is over."""
        while True:
            now = time.time_ns()
            while self.heap and self.heap[0][0] <= now:
                _, _, what, side, frame = heapq.heappop(self.heap)
                self._due(what, side, frame)
            if until(now):
                break
            wait_s = 0.02 if not self.heap else min(0.02, (self.heap[0][0] - now) / 1e9)
            ready, _, _ = select.select(self.sockets, [], [], max(0.0, wait_s))
            for tap in ready:
                self._take(self.sockets.index(tap))
        for file in self.files:
            file.close()
        for tap in self.sockets:
            tap.close()

    def _take(self, side: int) -> None:
        while True:
            try:
                frame, address = self.sockets[side].recvfrom(1 << 17)
            except BlockingIOError:
                return
            if address[2] == socket.PACKET_OUTGOING:
                continue
            self._arrive(side, frame)

    def _push(self, at_ns: int, what: str, side: int, frame: bytes) -> None:
        self.count += 1
        heapq.heappush(self.heap, (at_ns, self.count, what, side, frame))

    def _arrive(self, side: int, frame: bytes) -> None:
        now = time.time_ns()
        seen = self._look(side, frame[VNET_BYTES:])
        if seen is None:
            return
        self.first_ns = self.first_ns or now
        self._write(0 if side == 0 else 2, now, frame)
        extra_ns = 0
        for rule in self.rules:
            if not self._applies(rule, side, seen, now):
                continue
            self.log.append(
                {
                    "what": rule.action,
                    "at_ns": now,
                    "direction": side,
                    "kind": seen.kind,
                    "segment": seen.segment,
                    "bytes": seen.length,
                }
            )
            if rule.action == "drop":
                # Half of the drops happen behind the middle, where a capture there has seen them.
                if self.scenario.get("drop_late"):
                    self._push(now + self.delay_ns // 2, "seen", side, frame)
                return
            if rule.action == "filter":
                self._push(now + self.delay_ns, "icmp", side, frame)
                return
            if rule.action == "double":
                self._push(now + self.delay_ns + 1_000_000, "out", side, frame)
            extra_ns += int(rule.by_ms * 1e6)
        if self.rate:
            if self.queued[side] + len(frame) > self.queue_bytes:
                self.log.append(
                    {
                        "what": "overflow",
                        "at_ns": now,
                        "direction": side,
                        "kind": seen.kind,
                        "segment": seen.segment,
                        "bytes": seen.length,
                    }
                )
                return
            self.queued[side] += len(frame)
            packets = max(1, -(-seen.length // 1448))
            wire = len(frame) + (packets - 1) * 66 + 14 * packets
            start = max(now, self.free_ns[side])
            self.free_ns[side] = start + int(wire / self.rate)
            self._push(self.free_ns[side] + extra_ns, "sent", side, frame)
        else:
            self._pass_on(side, frame, now + extra_ns)

    def _pass_on(self, side: int, frame: bytes, now: int) -> None:
        self._push(now + self.delay_ns // 2, "seen", side, frame)
        self._push(now + self.delay_ns, "out", side, frame)

    def _due(self, what: str, side: int, frame: bytes) -> None:
        now = time.time_ns()
        if what == "sent":
            self.queued[side] -= len(frame)
            self._pass_on(side, frame, now)
        elif what == "seen":
            self._write(1, now, frame)
        elif what == "icmp":
            answer = icmp_filtered(frame[VNET_BYTES:])
            self._write(0 if side == 0 else 2, now, bytes(VNET_BYTES) + answer)
            self.sockets[side].send(bytes(VNET_BYTES) + answer)
        else:
            self._write(2 if side == 0 else 0, now, frame)
            with contextlib.suppress(OSError):
                self.sockets[1 - side].send(frame)

    def _write(self, place: int, now: int, frame: bytes) -> None:
        data = frame[VNET_BYTES:]
        kept = data[:SNAP_BYTES]
        head = struct.pack("<IIII", now // 10**9, now % 10**9, len(kept), len(data))
        self.files[place].write(head + kept)

    def _look(self, side: int, frame: bytes) -> Seen | None:
        """None for what is no TCP segment of this scenario."""
        if frame[12:14] != b"\x08\x00" or frame[23] != 6:
            return None
        tcp = ETHERNET_BYTES + (frame[14] & 15) * 4
        source, target, seq, _, word = struct.unpack_from(">HHIIH", frame, tcp)
        if (target if side == 0 else source) not in self.scenario["ports"]:
            return None
        port = source if side == 0 else target
        length = struct.unpack_from(">H", frame, 16)[0] - (tcp - 14) - (word >> 12) * 4
        flags = word & 63
        if flags & SYN:
            return Seen("synack" if flags & ACK else "syn", seq, 0, -1)
        if length <= 0:
            return Seen("rst" if flags & RST else "fin" if flags & FIN else "ack", seq, 0, -1)
        key = (port, seq)
        numbers = self.segments[side]
        high = self.high[side].get(port)
        if high is None or (seq + length - high) & 0xFFFFFFFF < 1 << 31:
            if key not in numbers and length > 1:
                numbers[key] = len(numbers)
            self.high[side][port] = (seq + length) & 0xFFFFFFFF
        return Seen("data", seq, length, numbers.get(key, -1))

    def _applies(self, rule: Rule, side: int, seen: Seen, now: int) -> bool:
        if rule.direction != side or rule.kind not in ("any", seen.kind):
            return False
        if not rule.from_ms <= (now - self.first_ns) / 1e6 < rule.to_ms:
            return False
        if rule.segments is not None and seen.segment not in rule.segments:
            return False
        if rule.after_segment is not None and len(self.segments[side]) <= rule.after_segment:
            return False
        which = seen.segment if rule.segments is not None else -2
        rule.copies[which] = rule.copies.get(which, 0) + 1
        return rule.copies[which] <= rule.times


def icmp_filtered(frame: bytes) -> bytes:
    """The ICMP error of a firewall that refuses this frame."""
    packet = frame[ETHERNET_BYTES:]
    body = struct.pack(">BBHI", 3, FILTERED, 0, 0) + packet[:28]
    body = body[:2] + struct.pack(">H", checksum(body)) + body[4:]
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0, 64, 1, 0, packet[16:20], packet[12:16]
    )
    head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
    return frame[6:12] + frame[:6] + frame[12:14] + head + body


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(~total & 0xFFFF)


def play(steps: list[list[Any]], port: int, server: bool, ready: int | None) -> list[list[Any]]:
    """Perform the steps of one host, and return each with its begin and end (ns)."""
    done: list[list[Any]] = []
    listener = connection = None
    options: list[tuple[int, int, int]] = []
    for step in steps:
        begun, (verb, *given) = time.time_ns(), step
        try:
            if verb == "option":
                level, name = getattr(socket, given[0]), getattr(socket, given[1])
                if connection is not None:
                    connection.setsockopt(level, name, given[2])
                options.append((level, name, given[2]))
            elif verb == "listen":
                listener = socket.socket()
                for option in options:
                    listener.setsockopt(*option)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((ADDRESSES[1], port))
                listener.listen(8)
                if ready is not None:
                    os.write(ready, b"1")
                    ready = None
            elif verb == "accept":
                assert listener is not None
                connection, _ = listener.accept()
            elif verb == "connect":
                connection = socket.socket()
                for option in options:
                    connection.setsockopt(*option)
                connection.connect((ADDRESSES[1], given[0] if given else port))
            elif verb == "sleep":
                time.sleep(given[0] / 1e3)
            elif verb == "close" and connection is not None:
                connection.close()
                connection = None
            elif verb == "reset" and connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
                connection = None
            elif connection is not None:
                work(connection, verb, given)
        except OSError as error:
            done.append([verb, begun, time.time_ns(), error.errno])
            if verb in ("send", "recv", "paced", "slowly"):
                break
            continue
        done.append([verb, begun, time.time_ns(), 0])
    if ready is not None:
        os.write(ready, b"0")
    return done


def work(connection: socket.socket, verb: str, given: list[Any]) -> None:
    """Send or receive on a connection."""
    if verb == "send":
        first = given[1].encode() if len(given) > 1 else b""
        connection.sendall(first + bytes(given[0] - len(first)))
    elif verb == "recv":
        left = given[0]
        while left > 0:
            got = len(connection.recv(min(left, 1 << 20)))
            if not got:
                raise OSError(32, "closed")
            left -= got
    elif verb == "paced":  # (count, bytes, pause in ms): writes with pauses
        for _ in range(given[0]):
            connection.sendall(bytes(given[1]))
            time.sleep(given[2] / 1e3)
    elif verb == "slowly":  # (total, bytes, pause in ms): reads with pauses
        left = given[0]
        while left > 0:
            time.sleep(given[2] / 1e3)
            got = len(connection.recv(min(left, given[1])))
            if not got:
                return
            left -= got
    elif verb == "until_closed":
        while connection.recv(1 << 20):
            pass
    elif verb == "shutdown":
        connection.shutdown(socket.SHUT_WR)
    else:
        raise ValueError(verb)


def started(host: str, steps: list[list[Any]], port: int, ready: int | None, out: Path) -> int:
    """Fork a process on the host that plays the steps and writes what it did."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        enter(host)
        out.write_text(json.dumps(play(steps, port, host == "server", ready)))
    finally:
        os._exit(0)


def perform(scenario: dict[str, Any], folder: Path) -> None:
    """Play one scenario."""
    folder.mkdir(parents=True)
    before = {}
    for number, host in enumerate(HOSTS):
        before[host] = sysctls(
            host, {"tcp_no_metrics_save": "1", **scenario.get("sysctls", {}).get(host, {})}
        )
        with inside(host):
            for command in (STSO, SGSO, SGRO):
                offload("eth0", command, scenario.get("offloads", False))
        for command in (SGRO,):
            offload(f"m{number}", command, False)
    counted = {host: counters(host) for host in HOSTS}
    port = scenario["ports"][0]
    forwarder = Forwarder(scenario, folder)
    read_end, write_end = os.pipe()
    running = {
        started("server", scenario["server"], port, write_end, folder / "server.json"): "server"
    }
    os.close(write_end)
    if scenario["server"] and scenario["server"][0][0] != "nothing":
        os.read(read_end, 1)
    os.close(read_end)
    running[started("client", scenario["client"], port, None, folder / "client.json")] = "client"
    ends_ns = time.time_ns() + int(scenario.get("limit_s", 60) * 1e9)
    over_ns = 0

    def until(now: int) -> bool:
        nonlocal over_ns
        for pid in list(running):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del running[pid]
        if not running and not over_ns:
            over_ns = now + int(scenario.get("linger_ms", 400) * 1e6) + 2 * forwarder.delay_ns
        return now > ends_ns or (over_ns != 0 and now > over_ns)

    forwarder.run(until)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for host in HOSTS:
        sysctls(host, before[host])
    truth = {
        host: json.loads(path.read_text())
        for host in HOSTS
        if (path := folder / f"{host}.json").exists()
    }
    for host in HOSTS:
        (folder / f"{host}.json").unlink(missing_ok=True)
    truth["counters"] = {
        host: {name: value - counted[host][name] for name, value in counters(host).items()}
        for host in HOSTS
    }
    (folder / "truth.json").write_text(json.dumps({"log": forwarder.log, **truth}))


def main() -> None:
    plan = json.loads(Path("plan.json").read_text())
    set_up()
    for scenario in plan:
        print(f"labs: {scenario['name']}", flush=True)
        perform(scenario, Path("/tmp/out") / scenario["name"])
        subprocess.run(("cp", "-r", f"/tmp/out/{scenario['name']}", "."), check=True)


main()
