"""A parser of `tc -s qdisc show` and `tc -s class show`: the counters of each queue.

Source: iproute2, tc/tc_qdisc.c print_qdisc(), tc/tc_class.c print_class(), tc/tc_util.c
print_tcstats2_attr(). Sizes are written by utils.c sprint_size(): 1Kb is 1,024 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from labs.errors import Damaged
from labs.guest.units import KIB, MIB

_HEAD = re.compile(r"(?:deleted )?(qdisc|class) (\S+) (\S+)((?: .*)?)", re.ASCII)
_SENT = re.compile(r"Sent (\d{1,20}) bytes (\d{1,20}) pkts?", re.ASCII)
_LOST = re.compile(r"\(dropped (\d{1,20}), overlimits (\d{1,20}) requeues (\d{1,20})\)", re.ASCII)
_BACKLOG = re.compile(r"backlog (\d{1,20})(Kb|Mb|b) (\d{1,20})p(?: requeues (\d{1,20}))?", re.ASCII)
_SIZE = {"b": 1, "Kb": KIB, "Mb": MIB}
_PLACES = ("dev", "parent", "leaf")


@dataclass(frozen=True)
class Queue:
    """One qdisc or class.

    `options` is the rest of its first line as tc printed it (`limit 1000 delay 200ms`,
    `rate 1Gbit ceil 1Gbit ...`); `more` contains the lines that are specific to the qdisc. Bytes
    include the Ethernet header. Packets are segments, even if several were queued as one. tc
    rounds `backlog_bytes` from 1 KiB on.
    """

    what: str
    kind: str
    handle: str
    device: str | None
    parent: str | None
    leaf: str | None
    root: bool
    options: str
    sent_bytes: int = 0
    sent_packets: int = 0
    dropped: int = 0
    overlimits: int = 0
    requeues: int = 0
    backlog_bytes: int = 0
    backlog_packets: int = 0
    more: tuple[str, ...] = ()


def queues(text: str) -> tuple[Queue, ...]:
    """The qdiscs and classes in the output of tc; blank lines and lines that begin with `$` (the
    commands) are skipped.

    Raises Damaged for details that do not follow a qdisc or class.
    """
    return tuple(_queue(head, lines) for head, lines in _entries(text))


def _entries(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    entry: tuple[re.Match[str], list[str]] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("$"):
            continue
        match = _HEAD.fullmatch(line.rstrip())
        if match is not None:
            if entry is not None:
                yield entry
            entry = (match, [])
        elif entry is not None and line[0] in " \t":
            entry[1].append(line.strip())
        else:
            raise Damaged(f"tc, line {number}: a qdisc or a class expected: {line[:60]!r}")
    if entry is not None:
        yield entry


def _queue(head: re.Match[str], lines: list[str]) -> Queue:
    places, root, options = _places(head[4].split())
    counted: dict[str, int] = {}
    more: list[str] = []
    for line in lines:
        read = _counters(line)
        counted |= read
        if not read:
            more.append(line)
    return Queue(
        what=head[1],
        kind=head[2],
        handle=head[3],
        device=places.get("dev"),
        parent=places.get("parent"),
        leaf=places.get("leaf"),
        root=root,
        options=" ".join(options),
        more=tuple(more),
        **counted,
    )


def _places(words: list[str]) -> tuple[dict[str, str], bool, list[str]]:
    """The place of the queue (dev, parent, leaf, root), and the remaining words."""
    places: dict[str, str] = {}
    root = False
    options: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "root" and not options:
            root = True
        elif word in _PLACES and not options and at + 1 < len(words):
            at += 1
            places[word] = words[at]
        else:
            options.append(word)
        at += 1
    return places, root, options


def _counters(line: str) -> dict[str, int]:
    """The counters on one line; none if the line is specific to the qdisc."""
    found: dict[str, int] = {}
    sent, lost, backlog = _SENT.search(line), _LOST.search(line), _BACKLOG.fullmatch(line)
    if sent is not None:
        found |= {"sent_bytes": int(sent[1]), "sent_packets": int(sent[2])}
    if lost is not None:
        found |= {"dropped": int(lost[1]), "overlimits": int(lost[2]), "requeues": int(lost[3])}
    if backlog is not None:
        found |= {
            "backlog_bytes": int(backlog[1]) * _SIZE[backlog[2]],
            "backlog_packets": int(backlog[3]),
        }
    return found
