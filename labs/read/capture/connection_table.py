"""The table of connections: who, when, with which options, how much, how it ended."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any

import numpy as np

from labs.read.capture import tracking as following

if TYPE_CHECKING:
    import pandas as pd

KNOWN_BY = {following.BY_SYN: "syn", following.BY_SYN_ACK: "syn-ack", following.BY_PORTS: "ports"}
ENDED = {following.OPEN: "open", following.BY_FIN: "fin", following.BY_RESET: "reset"}
# The columns of each end: name, word of its direction, whether it is known only from its SYN.
_OF_END: tuple[tuple[str, int, bool], ...] = (
    ("mss", following.MSS, True),
    ("wscale", following.SCALE, True),
    ("sack_permitted", following.SACK_PERMITTED, True),
    ("timestamps", following.TIMESTAMPS, True),
    ("segments", following.SENT, False),
    ("bytes", following.BYTES, False),
    ("retransmissions", following.RETRANSMITTED, False),
)
_ENDS = ("opener", "listener")


def address(version: int, high: int, low: int) -> str:
    """An address of two signed halves as people write it."""
    if version == 4:
        return str(IPv4Address(low))
    half = (1 << 64) - 1
    return str(IPv6Address((high & half) << 64 | low & half))


def columns(found: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The columns by name, from a reader's `connections`."""
    versions = found[:, following.IP_VERSION].tolist()
    made: dict[str, Any] = {"connection": np.arange(len(found), dtype=np.int32)}
    for end, first in zip(_ENDS, (following.OPENER_HIGH, following.LISTENER_HIGH), strict=True):
        halves = found[:, first : first + 2].tolist()
        made[end] = [
            address(version, high, low)
            for version, (high, low) in zip(versions, halves, strict=True)
        ]
        made[f"{end}_port"] = found[:, first + 2].astype(np.int32)
    made["opener_known_by"] = [KNOWN_BY[word] for word in found[:, following.KNOWN_BY].tolist()]
    made["first_ns"] = found[:, following.FIRST_NS].copy()
    made["last_ns"] = found[:, following.LAST_NS].copy()
    made["handshake_rtt_ns"] = found[:, following.HANDSHAKE_NS].copy()
    made["ended"] = [ENDED[word] for word in found[:, following.ENDED].tolist()]
    for number, end in enumerate(_ENDS):
        side = following.DIRECTIONS + number * following.DIRECTION_WORDS
        seen = found[:, side + following.SYN_SEEN] != 0
        for name, word, from_syn in _OF_END:
            values = found[:, side + word]
            if from_syn:
                values = np.where(seen, np.maximum(values, -1), -1).astype(np.int32)
            made[f"{end}_{name}"] = values.copy()
    return made


def rows(found: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    """The connections as rows of plain values; what is not known is None."""
    made = {
        name: list(values) if isinstance(values, list) else values.tolist()
        for name, values in columns(found).items()
    }
    return [
        {name: None if value == -1 else value for name, value in zip(made, row, strict=True)}
        for row in zip(*made.values(), strict=True)
    ]


def table(found: np.ndarray[Any, Any]) -> pd.DataFrame:
    """The same as a pandas table."""
    import pandas as pd

    return pd.DataFrame(columns(found))
