"""Rows from the text of `ss -tinmoe` and its variants, of any iproute2 version.

Every field is found by its token, never by its position, so a version that adds, drops or
reorders fields is read all the same; a token that is not known here is kept in `unknown`.
Source of the tokens: iproute2, misc/ss.c (inet_show_sock, tcp_stats_print, tcp_show_info).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from labs.errors import Damaged
from labs.read.parse.ss_tokens import Found, read_tokens
from labs.read.parse.tcp_info import SocketMemory

_HEAD = re.compile(
    r"(?:(?P<netid>tcp|mptcp|udp|raw|dccp|sctp|icmp6?|\?\?\?)\s+)?"
    r"(?:(?P<state>[A-Z][A-Z0-9-]*)\s+)?"
    r"(?P<recv_q>\d{1,19})\s+(?P<send_q>\d{1,19})\s+"
    r"(?P<local>\S+:(?:\d{1,5}|\*))\s+(?P<peer>\S+:(?:\d{1,5}|\*))(?:\s+(?P<rest>.*))?",
    re.ASCII | re.DOTALL,
)
_BLOCK = re.compile(r"@ (\d{1,20}) (\S+)", re.ASCII)


@dataclass(frozen=True)
class Timer:
    """The timer that is running on a socket: on, keepalive, timewait, persist; when it expires."""

    name: str
    expires_ms: int
    retransmits: int


@dataclass(frozen=True)
class Socket:
    """One socket as one `ss` printed it.

    `info` holds the fields of TCP_INFO that were printed, by names with units (ss leaves out what
    is zero); `details` what describes the socket (uid, ino, sk, cgroup, ...), as text. `state` is
    "" where ss was asked for one state only and prints none.
    """

    state: str
    recv_q_bytes: int
    send_q_bytes: int
    local_address: str
    local_port: int | None
    peer_address: str
    peer_port: int | None
    timer: Timer | None = None
    memory: SocketMemory | None = None
    congestion: str | None = None
    shutdown: str | None = None
    flags: tuple[str, ...] = ()
    info: dict[str, int | float] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def flat(self) -> dict[str, int | float | str | None]:
        """The row as one flat mapping, for a table; tuples are joined with spaces."""
        row: dict[str, int | float | str | None] = {
            name: getattr(self, name)
            for name in (
                "state",
                "recv_q_bytes",
                "send_q_bytes",
                "local_address",
                "local_port",
                "peer_address",
                "peer_port",
                "congestion",
                "shutdown",
            )
        }
        if self.timer is not None:
            row |= {f"timer_{name}": value for name, value in asdict(self.timer).items()}
        if self.memory is not None:
            row |= asdict(self.memory)
        row |= self.info
        row |= self.details
        row["flags"] = " ".join(self.flags)
        row["unknown"] = " ".join(self.unknown)
        return row


@dataclass(frozen=True)
class Block:
    """What one `ss` printed at one moment; `mark` is "" unless the moment was marked."""

    at_ns: int
    mark: str
    sockets: tuple[Socket, ...]


def rows(text: str) -> tuple[Socket, ...]:
    """The sockets in what one `ss` printed, with or without its header, one-line form too.

    Raises Damaged when a line is neither a socket nor the continuation of one.
    """
    return tuple(_socket(number, record) for number, record in _records(text))


def blocks(text: str) -> tuple[Block, ...]:
    """The blocks of an `ss.txt`: a line `@ <at_ns> <mark or ->`, then what `ss` printed.

    Raises Damaged for text before the first such line, or for a line that is no socket. A last
    line that was cut short (no line end) is damage too.
    """
    if text and not text.endswith("\n"):
        raise Damaged("ss.txt ends in the middle of a line: the run was cut; make it again")
    found: list[Block] = []
    head: tuple[int, str] | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        match = _BLOCK.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        _close(found, head, lines)
        head = (int(match[1]), "" if match[2] == "-" else match[2])
        lines = []
    _close(found, head, lines)
    return tuple(found)


def _close(found: list[Block], head: tuple[int, str] | None, lines: list[str]) -> None:
    if head is not None:
        found.append(Block(head[0], head[1], rows("\n".join(lines))))
    elif any(line.strip() for line in lines):
        raise Damaged("ss.txt does not begin with a line '@ <at_ns> <mark>': it was changed")


def _records(text: str) -> Iterator[tuple[int, str]]:
    """One string a socket: its first line and the indented ones below it."""
    started: tuple[int, list[str]] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or "Recv-Q" in line:
            continue
        if line[0] in " \t":
            if started is None:
                raise Damaged(f"ss, line {number}: details without a socket above them")
            started[1].append(line)
            continue
        if started is not None:
            yield started[0], " ".join(started[1])
        started = (number, [line])
    if started is not None:
        yield started[0], " ".join(started[1])


def _socket(number: int, record: str) -> Socket:
    match = _HEAD.fullmatch(record.strip())
    if match is None:
        raise Damaged(f"ss, line {number}: not a TCP socket: {record.strip()[:60]!r}")
    found = Found()
    read_tokens(match["rest"] or "", found)
    local_address, local_port = _endpoint(match["local"])
    peer_address, peer_port = _endpoint(match["peer"])
    return Socket(
        state=match["state"] or "",
        recv_q_bytes=int(match["recv_q"]),
        send_q_bytes=int(match["send_q"]),
        local_address=local_address,
        local_port=local_port,
        peer_address=peer_address,
        peer_port=peer_port,
        timer=None if found.timer is None else Timer(*found.timer),
        memory=found.memory,
        congestion=found.congestion,
        shutdown=found.shutdown,
        flags=tuple(found.flags),
        info=found.info,
        details=found.details,
        unknown=tuple(found.unknown),
    )


def _endpoint(text: str) -> tuple[str, int | None]:
    address, _, port = text.rpartition(":")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    return address, None if port == "*" else int(port)
