"""A parser of a queue's samples: rtnetlink messages about one qdisc, each with its moment.

Source: struct tcmsg and the attributes TCA_* of include/uapi/linux/rtnetlink.h; struct
gnet_stats_basic and gnet_stats_queue of include/uapi/linux/gen_stats.h; net/sched/sch_api.c
tc_fill_qdisc().
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from labs.errors import Damaged
from labs.read.parse.inet_diag import records

_TCMSG = struct.Struct("<BxxxiIII")
_ATTRIBUTE = struct.Struct("<HH")
_BASIC = struct.Struct("<QI")
_QUEUE = struct.Struct("<IIIII")
KIND, STATS2 = 1, 7
BASIC, QUEUE = 1, 3
BASIC_64_PACKETS = 8
NESTED_OR_ORDERED = 0x3FFF
"""The bits of an attribute's type that are its number."""


@dataclass(frozen=True)
class QueueSample:
    """A qdisc at one moment. Bytes include the Ethernet header; `sent` and `dropped` only grow."""

    at_ns: int
    kind: str
    sent_bytes: int
    sent_packets: int
    backlog_bytes: int
    backlog_packets: int
    dropped: int
    overlimits: int


def queue_samples(data: bytes) -> tuple[QueueSample, ...]:
    """Every record of a `queue-<direction>.bin`, in its order; Damaged for what is none."""
    return tuple(_sample(at_ns, message) for at_ns, message in records(data, "the queue's samples"))


def _sample(at_ns: int, message: bytes) -> QueueSample:
    if len(message) < _TCMSG.size:
        raise Damaged(f"a message of {len(message)} bytes is not about a qdisc")
    outer = dict(_attributes(message[_TCMSG.size :]))
    inner = dict(_attributes(outer.get(STATS2, b"")))
    basic, queue = inner.get(BASIC, b""), inner.get(QUEUE, b"")
    if len(basic) < _BASIC.size or len(queue) < _QUEUE.size or KIND not in outer:
        raise Damaged("a message about a qdisc lacks its kind or its counters")
    sent_bytes, sent_packets = _BASIC.unpack_from(basic)
    if BASIC_64_PACKETS in inner and len(inner[BASIC_64_PACKETS]) >= 8:
        sent_packets = int.from_bytes(inner[BASIC_64_PACKETS][:8], "little")
    packets, size, dropped, _, overlimits = _QUEUE.unpack_from(queue)
    return QueueSample(
        at_ns=at_ns,
        kind=outer[KIND].rstrip(b"\0").decode("ascii", "replace"),
        sent_bytes=sent_bytes,
        sent_packets=sent_packets,
        backlog_bytes=size,
        backlog_packets=packets,
        dropped=dropped,
        overlimits=overlimits,
    )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and the payload of each attribute; they are aligned to four bytes."""
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, number = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > len(data):
            raise Damaged("an attribute of a message about a qdisc is longer than the message")
        yield number & NESTED_OR_ORDERED, data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
