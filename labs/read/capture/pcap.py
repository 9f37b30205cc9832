"""Classic pcap files: where each record's frame is, and when it was captured.

Source: pcap-savefile(5); the record header of 24 bytes is Kuznetzov's modified format, as libpcap's
sf-pcap.c reads it.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from labs.read.capture.compiled import be32, compiled, le32
from labs.read.capture.counts import ABSURD_TIME, DAMAGED

# A record, in an array of int64: where its frame begins and ends in the buffer, where the frame
# ended on the wire, its time, its link type, and where the record's own header begins.
BEGIN, END, WIRE_END, TIME, LINK_TYPE, RECORD, RECORD_WORDS = 0, 1, 2, 3, 4, 5, 6
# The form of a file, in an array of int64. WANTED is the bytes that the next record takes.
BIG, HEADER_BYTES, NS_PER_UNIT, LINK, WANTED, FORM_WORDS = 0, 1, 2, 3, 4, 5

FILE_HEADER_BYTES = 24
MAX_RECORD_BYTES = 1 << 24
SECOND_NS = 10**9
LINK_MASK = 0x03FFFFFF  # what is above says how long the frame check sequence is

MAGIC = {0xA1B2C3D4: (16, 1000), 0xA1B23C4D: (16, 1), 0xA1B2CD34: (24, 1000)}


def form_of(head: bytes) -> np.ndarray[Any, Any] | None:
    """The form of a pcap file by its first 24 bytes; None if it is none."""
    if len(head) < FILE_HEADER_BYTES:
        return None
    for order in "<>":
        (magic,) = struct.unpack_from(order + "I", head)
        if magic in MAGIC:
            header_bytes, ns_per_unit = MAGIC[magic]
            (link,) = struct.unpack_from(order + "I", head, 20)
            return np.array(
                [order == ">", header_bytes, ns_per_unit, link & LINK_MASK, 0], np.int64
            )
    return None


@compiled
def walk_pcap(
    data: Any, at: int, end: int, form: Any, records: Any, counts: Any
) -> tuple[int, int]:
    """Find records from `at` on: how many, and where the first that was not taken begins.

    It stops where `records` is full, where the buffer has no whole record more (form[WANTED] says
    how many bytes that one takes), and for good at a length that cannot be (counts[DAMAGED] is
    then 1 + its place in the buffer).
    """
    big = form[BIG] != 0
    header = form[HEADER_BYTES]
    ns_per_unit = form[NS_PER_UNIT]
    found = 0
    full = len(records) // RECORD_WORDS
    while found < full:
        if at + header > end:
            form[WANTED] = header
            break
        if big:
            seconds = be32(data, at)
            fraction = be32(data, at + 4)
            length = be32(data, at + 8)
            on_wire = be32(data, at + 12)
        else:
            seconds = le32(data, at)
            fraction = le32(data, at + 4)
            length = le32(data, at + 8)
            on_wire = le32(data, at + 12)
        if length > MAX_RECORD_BYTES:
            counts[DAMAGED] = at + 1
            break
        begin = at + header
        if begin + length > end:
            form[WANTED] = header + length
            break
        if fraction * ns_per_unit >= SECOND_NS:
            counts[ABSURD_TIME] += 1
        place = found * RECORD_WORDS
        records[place + BEGIN] = begin
        records[place + END] = begin + length
        records[place + WIRE_END] = begin + max(length, min(on_wire, MAX_RECORD_BYTES))
        records[place + TIME] = seconds * SECOND_NS + fraction * ns_per_unit
        records[place + LINK_TYPE] = form[LINK]
        records[place + RECORD] = at
        found += 1
        at = begin + length
    return found, at
