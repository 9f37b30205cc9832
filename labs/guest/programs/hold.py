"""Accept one connection, leave its data unread or read slowly, and sample the socket's memory.

    hold.py --listen 127.0.0.3 --port 1234 --mss 1024 --rcvbuf 32768 --set listen|accept
            --clamp 0 --read-bytes 0 --read-every-us 1000 --read-after-ms 0 --sampled 1
            --out FILE --truesizes FILE

SO_RCVBUF (--rcvbuf 0: automatic) is set on the listening socket or on the accepted one, and
TCP_WINDOW_CLAMP (--clamp 0: none) on the listening socket. From --read-after-ms after accepting, up
to --read-bytes are read every --read-every-us; 0 never reads.

Sampling: one row per data segment that arrives, in FILE (CSV of whole numbers, with the columns
COLUMNS). The first row is taken after accepting, the last one at the end. The socket wakes the
program when a segment is queued, or dropped at the head of the sequence (sk_data_ready in
net/ipv4/tcp_input.c, tcp_data_queue; edge-triggered, because the data stays unread). A segment out
of order does not wake it. Therefore the socket is also examined every 32 us after an arrival,
halfway between the arrivals of a burst with that interval, and less and less often if none follows.
If a segment has no sample of its own, data_segs_in increases by more than 1. The program sleeps
between samples, because in virtual time the clock advances only while everything sleeps. With
--sampled 0 it sleeps until the end, and only the first and the last row are written.

At each write of a sender on the same host that tells of its writes (fill.py), TCP_QUICKACK is set:
an ACK that is delayed is sent at once.

SIGTERM ends the program, which then writes both files. --truesizes is a CSV file of payloads and of
the memory that the kernel charges for a packet with each of them (truesize). The packets are
datagrams between two local sockets, which have no header.

Source: include/uapi/linux/tcp.h, struct tcp_info; include/uapi/linux/sock_diag.h, SK_MEMINFO_*;
net/ipv4/proc.c, snmp4_net_list; net/unix/af_unix.c, unix_outq_len.
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
import time

SO_MEMINFO = 55  # include/uapi/asm-generic/socket.h
MEMINFO = struct.Struct("=2I20x2I")  # rmem_alloc, rcvbuf, backlog, drops, by SK_MEMINFO_*
TCP_WINDOW_CLAMP = 10  # include/uapi/linux/tcp.h
TCP_INFO_BYTES = 512
# rcv_mss, rcv_ssthresh, advmss, rcv_space, bytes_received, segs_in, data_segs_in
TCP_INFO = struct.Struct("=20xI40xI16xI8xI28xQ4xI8xI")
RCV_WND = struct.Struct("=232xI")
TIMER_SLACK = "/proc/self/timerslack_ns"
TOLD_OF_WRITES = "\0hold-{port}"
COUNTER_FILE = "/proc/self/net/netstat"
COUNTERS = (
    "TCPRcvCoalesce",
    "TCPRcvCollapsed",
    "TCPRcvQDrop",
    "TCPOFODrop",
    "TCPBacklogCoalesce",
    "TCPWantZeroWindowAdv",
    "TCPToZeroWindowAdv",
    "TCPFromZeroWindowAdv",
    "PruneCalled",
    "RcvPruned",
    "OfoPruned",
    "TCPZeroWindowDrop",
    "BeyondWindow",
)
SAMPLED = (
    "time_ns",
    "data_segs_in",
    "segs_in",
    "bytes_received",
    "rcvq_bytes",
    "rmem_alloc",
    "rcvbuf",
    "backlog",
    "drops",
    "rcv_ssthresh",
    "rcv_space",
    "rcv_mss",
    "advmss",
    "rcv_wnd",
    "read_bytes",
)
COLUMNS = (*SAMPLED, *COUNTERS)
# When the socket is examined: after a segment that woke the program, between the segments of a
# burst, and at the longest interval. After QUIET_LOOKS times without an arrival the interval is
# doubled each time.
FIRST_NS, NEXT_NS, LONGEST_NS = 48_000, 32_000, 100_000_000
QUIET_LOOKS = 16
TRUESIZE_PAYLOADS = range(64, 2049, 64)  # in cache lines, in which memory is allocated


def options(argv: list[str]) -> dict[str, str]:
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


def precise_timers() -> None:
    """Make sleeps as short as requested; by default the kernel may add 50 microseconds."""
    with open(TIMER_SLACK, "w", encoding="ascii") as file:
        file.write("1")


class Counters:
    """The TcpExt counters of this network namespace, as changes since the first reading; None for
    a counter that the kernel lacks."""

    def __init__(self) -> None:
        self.file = os.open(COUNTER_FILE, os.O_RDONLY | os.O_CLOEXEC)
        names, _ = self.lines()
        self.places = [names.index(name) if name in names else None for name in COUNTERS]
        self.first = [0] * len(COUNTERS)
        self.first = [value or 0 for value in self.read()]

    def lines(self) -> tuple[list[str], list[str]]:
        """The words of the line of names, and of the line of values."""
        text = os.pread(self.file, 1 << 16, 0).decode("ascii")
        names, values = (line.split() for line in text.splitlines()[:2])
        return names, values

    def read(self) -> list[int | None]:
        _, values = self.lines()
        return [
            None if place is None else int(values[place]) - first
            for place, first in zip(self.places, self.first, strict=True)
        ]


class Receiver:
    """The accepted connection, the number of bytes read from it, and the rows of its samples."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.counters = Counters()
        self.read_bytes = 0
        self.segments = -1
        self.rows: list[tuple[int | None, ...]] = []

    def sample(self, always: bool = False) -> bool:
        """Append a row if data segments have arrived since the last row; tell whether any have."""
        info = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        mss, ssthresh, advmss, space, received, segs, data_segs = TCP_INFO.unpack_from(info)
        arrived: bool = data_segs != self.segments
        if not arrived and not always:
            return False
        memory = self.connection.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36)
        rmem_alloc, rcvbuf, backlog, drops = MEMINFO.unpack_from(memory)
        queued = fcntl.ioctl(self.connection, termios.FIONREAD, bytes(4))
        window = RCV_WND.unpack_from(info)[0] if len(info) >= RCV_WND.size else -1
        self.segments = data_segs
        self.rows.append(
            (
                *(time.time_ns(), data_segs, segs, received),
                *(int.from_bytes(queued, sys.byteorder), rmem_alloc, rcvbuf, backlog, drops),
                *(ssthresh, space, mss, advmss, window, self.read_bytes),
                *self.counters.read(),
            )
        )
        return arrived

    def read(self, most_bytes: int) -> None:
        """Read up to `most_bytes`, if any data is queued."""
        with contextlib.suppress(BlockingIOError):
            self.read_bytes += len(self.connection.recv(most_bytes, socket.MSG_DONTWAIT))

    def acknowledge(self) -> None:
        """Send a delayed ACK at once."""
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def write(self, path: str) -> None:
        """Write the rows; a counter that the kernel lacks is empty."""
        with open(path, "w", encoding="ascii") as out:
            out.write(",".join(COLUMNS) + "\n")
            for row in self.rows:
                out.write(",".join("" if one is None else str(one) for one in row) + "\n")


def accepted(given: dict[str, str]) -> socket.socket:
    """The first connection, with the requested receive buffer."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, int(given["mss"]))
    rcvbuf_bytes = int(given["rcvbuf"])
    if rcvbuf_bytes and given["set"] == "listen":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf_bytes)
    if int(given["clamp"]):
        listener.setsockopt(socket.IPPROTO_TCP, TCP_WINDOW_CLAMP, int(given["clamp"]))
    listener.bind((given["listen"], int(given["port"])))
    listener.listen(1)
    connection, _ = listener.accept()
    listener.close()
    if rcvbuf_bytes and given["set"] == "accept":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf_bytes)
    return connection


def interval_ns(quiet: int) -> int:
    """The time until the socket is examined again, after `quiet` times without an arrival."""
    doublings = max(0, quiet - QUIET_LOOKS)
    return NEXT_NS << doublings if NEXT_NS << doublings < LONGEST_NS else LONGEST_NS


def hold(receiver: Receiver, ended: int, given: dict[str, str]) -> None:
    """Sample and read until the descriptor `ended` is readable."""
    arrivals, writes = select.epoll(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    writes.bind(TOLD_OF_WRITES.format(**given))
    told = writes.fileno()
    sampled, quiet = given["sampled"] == "1", QUIET_LOOKS
    if sampled:
        arrivals.register(receiver.connection, select.EPOLLIN | select.EPOLLET)
    read_bytes, every_ns = int(given["read-bytes"]), 1000 * int(given["read-every-us"])
    now_ns = look_ns = read_ns = time.time_ns()
    read_ns += 1_000_000 * int(given["read-after-ms"])
    while True:
        due = [look_ns] * sampled + [read_ns] * bool(read_bytes)
        wait_s = max(0, min(due) - now_ns) / 1e9 if due else None
        ready, _, _ = select.select((arrivals.fileno(), told, ended), (), (), wait_s)
        now_ns = time.time_ns()
        if ended in ready:
            return
        if told in ready:
            writes.recv(1)
            receiver.acknowledge()
        if arrivals.fileno() in ready:
            arrivals.poll(0)
            receiver.sample()
            quiet, look_ns = 0, now_ns + FIRST_NS
        elif sampled and now_ns >= look_ns:
            quiet = 0 if receiver.sample() else quiet + 1
            look_ns += interval_ns(quiet)
        if read_bytes and now_ns >= read_ns:
            receiver.read(read_bytes)
            read_ns += every_ns


def write_truesizes(path: str) -> None:
    """Write the truesize of a packet for payloads up to half a page."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with open(path, "w", encoding="ascii") as out:
        out.write("payload_bytes,truesize_bytes\n")
        for payload_bytes in TRUESIZE_PAYLOADS:
            sender.send(bytes(payload_bytes))
            charged = fcntl.ioctl(sender, termios.TIOCOUTQ, bytes(4))
            receiver.recv(payload_bytes)
            out.write(f"{payload_bytes},{int.from_bytes(charged, sys.byteorder)}\n")


def main(argv: list[str]) -> int:
    given = options(argv)
    precise_timers()
    receiver = Receiver(accepted(given))
    ended, ending = os.pipe()
    os.set_blocking(ending, False)
    signal.set_wakeup_fd(ending)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    receiver.sample()
    hold(receiver, ended, given)
    receiver.sample(always=True)
    receiver.write(given["out"])
    write_truesizes(given["truesizes"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
