"""The columns of a `samples.bin`.

Messages with the same attributes have their values at the same places, so all of these are read at
once. `labs.read.parse.inet_diag` decodes one message, and says what its values mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray

from labs.read.parse import inet_diag
from labs.read.parse.inet_diag import Shape, SocketMemory

Column = NDArray[Any] | list[Any]
"""Numbers or bool, or a list of what need not be a number."""

HEAD = numpy.dtype(
    [
        *((name, "u1") for name in ("family", "state", "timer", "retransmits")),
        *((name, ">u2") for name in ("local_port", "peer_port")),
        *((name, "V16") for name in ("local_address", "peer_address")),
        ("interface", "<u4"),
        ("cookie", "<u8"),
        *((name, "<u4") for name in ("expires_ms", "recv_q_bytes", "send_q_bytes")),
        *((name, "<u4") for name in ("uid", "inode")),
    ]
)
"""struct inet_diag_msg (include/uapi/linux/inet_diag.h); its cookie is two words, the low first."""
TYPES = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8"}
"""Of the codes in `struct`, as numpy names them."""
MEMORY_WORDS = tuple(field.name for field in fields(SocketMemory))
FEWEST_MEMORY_WORDS = 7
MOST_SIGNED = 2**63 - 1
OF_EVERY_TABLE = (*inet_diag.PLAIN, *MEMORY_WORDS, *inet_diag.FIELD_NAMES)
"""The columns of a table without a record."""


def sample_columns(data: bytes) -> dict[str, Column]:
    """One row per record of a `samples.bin`, in its order; the columns by name.

    The fields of `inet_diag.Sample`, with those of its parts by their own names. None for fields
    that the kernel does not have, NaN for those of a part that the message does not have. Raises
    Damaged for a record that cannot be read.
    """
    samples = list(inet_diag.records(data))
    if not samples:
        return {name: numpy.empty(0) for name in OF_EVERY_TABLE}
    groups = [
        (rows, _Group([samples[row] for row in rows.tolist()], shape).columns())
        for rows, shape in _alike([message for _, message in samples])
    ]
    names = dict.fromkeys(name for _, columns in groups for name in columns)
    return {name: _joined(len(samples), name, groups) for name in names}


def _alike(messages: Sequence[bytes]) -> list[tuple[NDArray[Any], Shape]]:
    """The rows of messages with equal lengths and headers of attributes, so with the same shape;
    in the order of their first rows."""
    by_length: dict[int, list[int]] = {}
    for row, message in enumerate(messages):
        by_length.setdefault(len(message), []).append(row)
    groups = []
    for length, of_length in by_length.items():
        rows = numpy.array(of_length)
        content = numpy.frombuffer(b"".join(messages[row] for row in of_length), "u1")
        content = content.reshape(len(rows), length)
        while len(rows):
            shape = inet_diag.shape_of(messages[rows[0]])
            headers = [start - back for _, start, _ in shape for back in (4, 3, 2, 1)]
            same = (content[:, headers] == content[0, headers]).all(axis=1)
            groups.append((rows[same], shape))
            rows, content = rows[~same], content[~same]
    return sorted(groups, key=lambda group: int(group[0][0]))


def _joined(
    count: int, name: str, groups: Sequence[tuple[NDArray[Any], dict[str, Column]]]
) -> Column:
    """A column of all groups; its rows in the order of the records."""
    parts = [(rows, columns[name]) for rows, columns in groups if name in columns]
    whole = sum(len(rows) for rows, _ in parts) == count
    numbers = [part for _, part in parts if isinstance(part, numpy.ndarray)]
    if len(numbers) < len(parts) or not (
        whole or all(number.dtype.kind in "ui" for number in numbers)
    ):
        values: list[Any] = [numpy.nan] * count
        for rows, part in parts:
            listed = part.tolist() if isinstance(part, numpy.ndarray) else part
            for row, value in zip(rows.tolist(), listed, strict=True):
                values[row] = value
        return values
    if not whole:
        joined = numpy.full(count, numpy.nan)
    else:
        joined = numpy.empty(count, numbers[0].dtype if numbers[0].dtype.kind == "b" else "u8")
    for rows, part in parts:
        joined[rows] = part
    if joined.dtype.kind == "u" and joined.max(initial=0) <= MOST_SIGNED:
        return joined.astype("i8")
    return joined


@dataclass(frozen=True)
class _Group:
    """Records with the same attributes at the same places."""

    records: list[tuple[int, bytes]]
    shape: Shape

    @cached_property
    def _messages(self) -> list[bytes]:
        return [message for _, message in self.records]

    @cached_property
    def _block(self) -> bytes:
        return b"".join(self._messages)

    def columns(self) -> dict[str, Column]:
        """The columns in the order of a table: those of every sample, then those of its parts."""
        parts: dict[str, dict[str, Column]] = {}
        unknown = []
        for kind, start, end in self.shape:
            part_columns = self._part(kind, start, end)
            for name, columns in part_columns.items():
                parts[name] = parts.get(name, {}) | columns
            if not part_columns and kind != inet_diag.PADDING:
                unknown.append(kind)
        memory = parts.get("memory") or parts.get("short_memory", {})
        others = (parts.get(name, {}) for name in ("tcp", "algorithm", "extra"))
        columns = (
            {"at_ns": numpy.array([at_ns for at_ns, _ in self.records])}
            | self._head()
            | parts.get("plain", {})
        )
        columns = {name: columns[name] for name in inet_diag.PLAIN}
        for part in (memory, *others):
            columns |= part
        return columns | {"unknown_attributes": [" ".join(map(str, unknown))] * len(self.records)}

    def _numbers(self, dtype: numpy.dtype[Any], start: int) -> NDArray[Any]:
        """What is at one place of every message."""
        size = len(self._messages[0])
        return numpy.ndarray((len(self._messages),), dtype, self._block, start, (size,))

    def _head(self) -> dict[str, Column]:
        head = self._numbers(HEAD, 0)
        columns: dict[str, Column] = {name: head[name] for name in HEAD.names or ()}
        for name, words in (("state", inet_diag.STATES), ("timer", inet_diag.TIMERS)):
            columns[name] = [inet_diag.word(words, number) for number in head[name].tolist()]
        for name in ("local_address", "peer_address"):
            pairs = zip(head["family"].tolist(), head[name].tolist(), strict=True)
            columns[name] = [inet_diag.address(family, raw) for family, raw in pairs]
        none: list[Any] = [None] * len(head)
        return columns | {"congestion": none, "shutdown": none}

    def _part(self, kind: int, start: int, end: int) -> dict[str, dict[str, Column]]:
        """The columns of one attribute by the part of a sample that they belong to; empty for an
        attribute that is not known, or whose length is not."""
        if kind == inet_diag.TCP_INFO:
            return {"tcp": self._tcp_info(start, end - start)}
        count = min((end - start) // 4, len(MEMORY_WORDS))
        if kind == inet_diag.MEMORY and count >= FEWEST_MEMORY_WORDS:
            words = self._numbers(numpy.dtype(("<u4", count)), start)
            none: list[Any] = [None] * len(words)
            return {
                "memory": {
                    name: words[:, place] if place < count else none
                    for place, name in enumerate(MEMORY_WORDS)
                }
            }
        payloads = [message[start:end] for message in self._messages]
        read = {payload: _read(kind, payload) for payload in set(payloads)}
        return {
            part: {name: [read[payload][part][name] for payload in payloads] for name in values}
            for part, values in read[payloads[0]].items()
        }

    def _tcp_info(self, start: int, length: int) -> dict[str, Column]:
        layout, missing = inet_diag.tcp_info_layout(length)
        codes = layout.format.removeprefix("<")
        dtype = numpy.dtype([(f"{place}", TYPES[code]) for place, code in enumerate(codes)])
        read = self._numbers(dtype, start)
        none: list[Any] = [None] * len(read)
        beyond = numpy.full(len(read), length - layout.size)
        columns = (*(read[name] for name in dtype.names or ()), *(None,) * missing, beyond)
        return {
            name: none if value is None else value
            for name, value in zip(
                inet_diag.FIELD_NAMES, inet_diag.without_bit_fields(columns), strict=True
            )
        }


def _read(kind: int, payload: bytes) -> dict[str, dict[str, Any]]:
    """The values of an attribute by name, by the part of a sample that they belong to."""
    parts: dict[str, Any] = {}
    extra: dict[str, int] = {}
    inet_diag.read_attribute(kind, payload, parts, extra)
    groups = {name: vars(value) for name, value in parts.items() if is_dataclass(value)} | {
        "plain": {name: value for name, value in parts.items() if not is_dataclass(value)},
        "extra": extra,
    }
    return {name: values for name, values in groups.items() if values}
