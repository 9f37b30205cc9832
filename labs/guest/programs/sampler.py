"""Sample the TCP sockets of one port: raw inet_diag messages and, less often, the text of `ss`.

    sampler --port N --samples FILE --ss FILE [--interval-ms 100] [--ss-interval-ms 1000]
            [--stats FILE]

Inside a virtual kernel starting `ss` takes 40 ms, a dump 1 ms. Therefore the same dumps that ss
would request are stored, and one ss at the end prints all of them, which it reads from the file
that the environment variable TCPDIAG_FILE names. The text is the same except for trailing blanks.

FILE of --samples: records of u64le at_ns (CLOCK_REALTIME), u32le length, then the message of one
socket (struct inet_diag_msg and attributes, without its nlmsghdr). FILE of --ss: blocks of a line
`@ <at_ns> <mark or ->` and the output of `ss -tinmoeH`. Both exist, empty, once signals are
handled. SIGUSR1 takes both samples at once and marks the block `mark`; SIGTERM does so with `end`,
then exits 0.

It sleeps between absolute deadlines, multiples of the interval on CLOCK_REALTIME, and never polls:
in virtual time the clock advances only while everything sleeps. A deadline that has passed is
skipped and counted. Few modules are imported, because each one takes time in a virtual kernel.
Exit codes: 0; 2 bad arguments; 3 ss is missing; 4 the kernel refused a dump.
Source: include/uapi/linux/inet_diag.h; net/ipv4/inet_diag.c; iproute2 misc/ss.c.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import time

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR = 2
NLMSG_DONE = 3
# MEMINFO, INFO, VEGASINFO (includes BBR and DCTCP), CONG, SKMEMINFO: as `ss -mi` requests.
EXTENSIONS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6
# All but TIME_WAIT (6), LISTEN (10) and the kernel's own NEW_SYN_RECV (12).
STATES = sum(1 << state for state in (1, 2, 3, 4, 5, 7, 8, 9, 11))
REQUEST = struct.pack("=IHHII", 72, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 1, 0) + struct.pack(
    "=BBBBI48x", socket.AF_INET, socket.IPPROTO_TCP, EXTENSIONS, 0, STATES
)
RECORD = struct.Struct("<QI")
HEADER = struct.Struct("=IHHII")
MESSAGE_BYTES = 72
WANTED = (signal.SIGUSR1, signal.SIGTERM)
NUMBERS = {"--port": 0, "--interval-ms": 100, "--ss-interval-ms": 1000}
FILES = {"--samples": "", "--ss": "", "--stats": ""}


class Refused(Exception):
    """Ends the sampler; the first argument is its exit code, the second the line to print."""


def arguments(argv: list[str]) -> tuple[dict[str, int], dict[str, str]]:
    """The numbers and files in the arguments; Refused with code 2 if they cannot be used."""
    numbers, files = dict(NUMBERS), dict(FILES)
    words = iter(argv)
    for name in words:
        value = next(words, "")
        if name in numbers:
            if not (value.isascii() and value.isdigit() and 0 < int(value) < 10**9):
                raise Refused(2, f"{name} {value!r} is not a whole number above 0")
            numbers[name] = int(value)
        elif name in files:
            files[name] = value
        else:
            known = ", ".join([*numbers, *files])
            raise Refused(2, f"unknown argument {name!r}; allowed: {known}")
    if not 0 < numbers["--port"] < 65536 or not files["--samples"] or not files["--ss"]:
        raise Refused(2, "--port 1..65535, --samples FILE and --ss FILE are required")
    return numbers, files


def messages(netlink: socket.socket, port: bytes) -> list[bytes]:
    """One dump: the messages of the sockets whose source or destination port is `port`."""
    netlink.send(REQUEST)
    found: list[bytes] = []
    while True:
        answer = netlink.recv(262144)
        at = 0
        while at + HEADER.size <= len(answer):
            length, kind, _flags, _sequence, _sender = HEADER.unpack_from(answer, at)
            if kind == NLMSG_DONE:
                return found
            if kind == NLMSG_ERROR:
                code = -struct.unpack_from("=i", answer, at + HEADER.size)[0]
                raise Refused(4, f"the kernel refused a socket dump: {os.strerror(code)}")
            body = answer[at + HEADER.size : at + length]
            if len(body) >= MESSAGE_BYTES and port in (body[4:6], body[6:8]):
                found.append(body)
            at += (length + 3) & ~3


class Sampler:
    """The open files, the netlink socket and the counters of a sampler."""

    def __init__(self, numbers: dict[str, int], files: dict[str, str]) -> None:
        port = numbers["--port"]
        self.port = port.to_bytes(2, "big")
        self.ss_argv = (find("ss"), "-tinmoeH", f"( sport = :{port} or dport = :{port} )")
        self.netlink = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG
        )
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self.samples = os.open(files["--samples"], flags, 0o644)
        self.ss = os.open(files["--ss"], flags, 0o644)
        self.ss_path = files["--ss"]
        self.kept = os.open(self.ss_path + ".dump", flags, 0o644)
        self.blocks: list[tuple[int, str, int]] = []
        self.stats = files["--stats"]
        self.periods_ns: list[int] = []
        self.last_ns = 0
        self.cpu_before, self.ss_cpu_before = cpu_seconds()
        self.dumps = self.records = self.missed = 0

    def sample(self) -> int:
        """Append one record per socket; return their time."""
        at_ns, _ = self.dump()
        return at_ns

    def dump(self) -> tuple[int, list[bytes]]:
        """Append the records of one dump; return its time and its messages."""
        at_ns = time.time_ns()
        found = messages(self.netlink, self.port)
        if found:
            parts: list[bytes] = []
            for body in found:
                parts += (RECORD.pack(at_ns, len(body)), body)
            write_all(self.samples, b"".join(parts))
        self.dumps += 1
        self.records += len(found)
        return at_ns, found

    def periodic(self, *, with_text: bool) -> None:
        """A sample at a deadline; the time since the previous one is the actual period."""
        at_ns = self.text("-") if with_text else self.sample()
        if self.last_ns:
            self.periods_ns.append(at_ns - self.last_ns)
        self.last_ns = at_ns

    def text(self, mark: str) -> int:
        """Store a dump as a sample and for ss; `mark` is the heading of its block."""
        at_ns, found = self.dump()
        self.blocks.append((at_ns, mark, len(found)))
        for body in found:
            size = HEADER.size + len(body)
            padding = bytes(-size % 4)
            write_all(self.kept, HEADER.pack(size, SOCK_DIAG_BY_FAMILY, 2, 1, 0) + body + padding)
        return at_ns

    def print_texts(self) -> None:
        """Have one ss print all stored dumps, and write each block with its heading."""
        write_all(self.kept, HEADER.pack(HEADER.size + 4, NLMSG_DONE, 2, 1, 0) + bytes(4))
        printed = os.open(self.ss_path + ".all", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        pid = os.posix_spawn(
            self.ss_argv[0],
            self.ss_argv,
            {**os.environ, "TCPDIAG_FILE": self.ss_path + ".dump"},
            file_actions=[(os.POSIX_SPAWN_DUP2, printed, 1)],
            setsigmask=(),
        )
        failed = os.waitpid(pid, 0)[1]
        sockets = rows(os.pread(printed, os.fstat(printed).st_size, 0))
        os.close(printed)
        for name in (".dump", ".all"):
            os.unlink(self.ss_path + name)
        wanted = sum(count for _, _, count in self.blocks)
        if failed or len(sockets) != wanted:
            raise Refused(4, f"ss printed {len(sockets)} of {wanted} sockets")
        following_one = iter(sockets)
        for at_ns, mark, count in self.blocks:
            text = b"".join(next(following_one) for _ in range(count))
            write_all(self.ss, f"@ {at_ns} {mark}\n".encode() + text)

    def write_stats(self) -> None:
        """Append one JSON line: the actual sampling period, and the CPU time of sampler and ss."""
        if not self.stats:
            return
        cpu_s, ss_cpu_s = cpu_seconds()
        count = len(self.periods_ns)
        mean_ms = sum(self.periods_ns) / count / 1e6 if count else 0.0
        max_ms = max(self.periods_ns, default=0) / 1e6
        line = (
            f'{{"samples":{self.dumps},"records":{self.records},"texts":{len(self.blocks)},'
            f'"missed":{self.missed},'
            f'"mean_period_ms":{mean_ms:.3f},"max_period_ms":{max_ms:.3f},'
            f'"cpu_s":{cpu_s - self.cpu_before:.3f},'
            f'"ss_cpu_s":{ss_cpu_s - self.ss_cpu_before:.2f}}}\n'
        )
        target = os.open(self.stats, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        write_all(target, line.encode())
        os.close(target)

    def close(self) -> None:
        self.netlink.close()
        os.close(self.kept)
        os.close(self.samples)
        os.close(self.ss)


def cpu_seconds() -> tuple[float, float]:
    """The CPU time of this process, and of the programs that it has waited for."""
    used = os.times()
    return time.process_time(), used.children_user + used.children_system


def find(program: str) -> str:
    """The path of a program; Refused with code 3 if it is not in PATH."""
    for folder in os.get_exec_path():
        path = f"{folder}/{program}"
        if os.access(path, os.X_OK):
            return path
    raise Refused(3, f"{program} is not installed. Install the package iproute2")


def rows(text: bytes) -> list[bytes]:
    """The output of ss, one item per socket: a line and its indented continuation lines."""
    found: list[bytes] = []
    for line in text.splitlines(keepends=True):
        line = line.rstrip() + b"\n"
        if line[:1].isspace() and found:
            found[-1] += line
        else:
            found.append(line)
    return found


def write_all(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


def following(now_ns: int, interval_ns: int) -> int:
    """The first multiple of the interval after `now_ns`."""
    return (now_ns // interval_ns + 1) * interval_ns


def watch(sampler: Sampler, interval_ns: int, ss_interval_ns: int) -> None:
    """Sample at the deadlines and at signals, until SIGTERM."""
    sampler.text("start")
    now = time.time_ns()
    at, ss_at = following(now, interval_ns), following(now, ss_interval_ns)
    while True:
        now = time.time_ns()
        # If the clock is set back, the next sample must not be far in the future.
        at = min(at, following(now, interval_ns))
        ss_at = min(ss_at, following(now, ss_interval_ns))
        if now < min(at, ss_at):
            arrived = signal.sigtimedwait(WANTED, (min(at, ss_at) - now) / 1e9)
            if arrived is not None:
                ending = arrived.si_signo == signal.SIGTERM
                sampler.text("end" if ending else "mark")
                if ending:
                    sampler.print_texts()
                    return
            continue
        sampler.periodic(with_text=now >= ss_at)
        now = time.time_ns()
        if now >= at:
            sampler.missed += (now - at) // interval_ns
            at = following(now, interval_ns)
        if now >= ss_at:
            ss_at = following(now, ss_interval_ns)


def main(argv: list[str]) -> int:
    """Run the sampler until SIGTERM; return the exit code."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WANTED)
    try:
        numbers, files = arguments(argv)
        sampler = Sampler(numbers, files)
        try:
            watch(sampler, numbers["--interval-ms"] * 10**6, numbers["--ss-interval-ms"] * 10**6)
            sampler.write_stats()
        finally:
            sampler.close()
    except Refused as refused:
        code, line = refused.args
        print(f"sampler: {line}", file=sys.stderr)
        return int(code)
    finally:
        while signal.sigtimedwait(WANTED, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
