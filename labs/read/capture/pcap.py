"""Capture files, pcap and pcapng: the place of each record's frame, and its time.

Source: pcap-savefile(5); the record header of 24 bytes is Kuznetzov's modified format, as libpcap's
sf-pcap.c reads it. The pcapng specification (draft-ietf-opsawg-pcapng), sections
4.1 to 4.4 and its appendix on the obsolete Packet Block.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from labs.read.capture.segment_table import ABSURD_TIME, DAMAGED, NO_TIME
from labs.read.native.compiled import Bytes, Int64s, be16, be32, le16, le32, native

# A record, in an array of int64: where its frame begins and ends in the buffer, where the frame
# ended on the wire, its time, its link type, and where the record's own header begins.
BEGIN, END, WIRE_END, TIME, LINK_TYPE, RECORD, RECORD_WORDS = 0, 1, 2, 3, 4, 5, 6
# The form of a file, in an array of int64: the byte order, of pcap three words more; WANTED is the
# bytes that the next record takes, INTERFACES how many a section of pcapng has so far.
BIG, HEADER_BYTES, NS_PER_UNIT, LINK, WANTED, INTERFACES, FORM_WORDS = 0, 1, 2, 3, 4, 5, 6

FILE_HEADER_BYTES = 24
MAX_RECORD_BYTES = 1 << 24
SECOND_NS = 10**9
LINK_MASK = 0x03FFFFFF  # the upper bits are the length of the frame check sequence

MAGIC = {0xA1B2C3D4: (16, 1000), 0xA1B23C4D: (16, 1), 0xA1B2CD34: (24, 1000)}


def pcap_form(head: bytes) -> np.ndarray[Any, Any] | None:
    """The form of a pcap file by its first 24 bytes; None for another file."""
    if len(head) < FILE_HEADER_BYTES:
        return None
    for order in "<>":
        (magic,) = struct.unpack_from(order + "I", head)
        if magic in MAGIC:
            header_bytes, ns_per_unit = MAGIC[magic]
            (link,) = struct.unpack_from(order + "I", head, 20)
            return np.array(
                [order == ">", header_bytes, ns_per_unit, link & LINK_MASK, 0, 0], np.int64
            )
    return None


@native
def walk_pcap(
    data: Bytes, at: int, end: int, form: Int64s, records: Int64s, counts: Int64s
) -> tuple[int, int]:
    """Find records from `at` on; return their number, and the place of the next one.

    It stops when `records` is full, when the buffer has no further whole record (form[WANTED] is
    the size of the next one), and finally at an impossible length (counts[DAMAGED] is then 1 + its
    place in the buffer).
    """
    big = form[BIG] != 0
    header = form[HEADER_BYTES]
    ns_per_unit = form[NS_PER_UNIT]
    count = 0
    full = len(records) // RECORD_WORDS
    while count < full:
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
        place = count * RECORD_WORDS
        records[place + BEGIN] = begin
        records[place + END] = begin + length
        records[place + WIRE_END] = begin + max(length, min(on_wire, MAX_RECORD_BYTES))
        records[place + TIME] = seconds * SECOND_NS + fraction * ns_per_unit
        records[place + LINK_TYPE] = form[LINK]
        records[place + RECORD] = at
        count += 1
        at = begin + length
    return count, at


SNOOP_MAGIC = b"snoop\0\0\0"
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
SECTION, INTERFACE, OLD_PACKET, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
# Custom blocks, systemd's journal and sysdig's events are no packets, but Wireshark numbers them.
NUMBERED = (0x0BAD, 0x40000BAD, 9, 0x204, 0x208, 0x216, 0x221, 0x222)
OF_NO_PACKET = 0xFFFE
"""The link type of a record of such a block."""
BYTE_ORDER = 0x1A2B3C4D
TIME_RESOLUTION, TIME_OFFSET = 9, 14
MICROSECONDS = 6  # the default resolution of an interface
# An interface, in an array of int64: link type, snap length, resolution, offset in seconds.
OF_LINK, OF_SNAP, OF_RESOLUTION, OF_OFFSET, INTERFACE_WORDS = 0, 1, 2, 3, 4
MAX_INTERFACES = 1 << 16
MAX_BLOCK_BYTES = MAX_RECORD_BYTES + 4096
LATEST_S = 4_600_000_000  # two times this far apart differ by less than 64 bits of nanoseconds


def pcapng_form() -> np.ndarray[Any, Any]:
    """The form of a pcapng file before reading."""
    return np.zeros(FORM_WORDS, np.int64)


def u16(data: Bytes, at: int, big: bool) -> int:
    return be16(data, at) if big else le16(data, at)


def u32(data: Bytes, at: int, big: bool) -> int:
    return be32(data, at) if big else le32(data, at)


def nanoseconds(high: int, low: int, resolution: int, offset_s: int, counts: Int64s) -> int:
    """A time stamp of 64 bits in an interface's units as ns since 1970; 0 for an absurd one."""
    if high >= 1 << 31:
        counts[ABSURD_TIME] += 1
        return 0
    stamp = high << 32 | low
    power = resolution & 127
    if resolution >= 128:
        if power > 62:
            counts[ABSURD_TIME] += 1
            return 0
        seconds = stamp >> power
        rest = stamp - (seconds << power)
        if power > 33:  # keeps rest * SECOND_NS inside 63 bits
            rest = rest >> (power - 33)
            power = 33
        fraction_ns = rest * SECOND_NS >> power
    else:
        if power > 18:
            counts[ABSURD_TIME] += 1
            return 0
        units = 10**power
        seconds = stamp // units
        rest = stamp - seconds * units
        fraction_ns = rest * 10 ** (9 - power) if power <= 9 else rest // 10 ** (power - 9)
    if offset_s > LATEST_S or offset_s < -LATEST_S:
        counts[ABSURD_TIME] += 1
        return 0
    seconds += offset_s
    if seconds > LATEST_S or seconds < -LATEST_S:
        counts[ABSURD_TIME] += 1
        return 0
    return seconds * SECOND_NS + fraction_ns


def interface(data: Bytes, at: int, end: int, big: bool, interfaces: Int64s, number: int) -> None:
    """Read an interface description, whose body is data[at:end], as interface `number`."""
    place = number * INTERFACE_WORDS
    interfaces[place + OF_LINK] = u16(data, at, big)
    interfaces[place + OF_SNAP] = u32(data, at + 4, big)
    interfaces[place + OF_RESOLUTION] = MICROSECONDS
    interfaces[place + OF_OFFSET] = 0
    option = at + 8
    while option + 4 <= end:
        code = u16(data, option, big)
        length = u16(data, option + 2, big)
        option += 4
        if code == 0 or option + length > end:
            break
        if code == TIME_RESOLUTION and length >= 1:
            interfaces[place + OF_RESOLUTION] = data[option]
        elif code == TIME_OFFSET and length >= 8:
            first = u32(data, option, big)
            second = u32(data, option + 4, big)
            high, low = (first, second) if big else (second, first)
            if high >= 1 << 31:
                high -= 1 << 32
            interfaces[place + OF_OFFSET] = high * (1 << 32) + low
        option += (length + 3) & ~3


def section(data: Bytes, at: int, end: int, form: Int64s) -> bool:
    """Begin a section at the block at `at`; False if its byte order is invalid."""
    if le32(data, at + 8) == BYTE_ORDER:
        form[BIG] = 0
    elif be32(data, at + 8) == BYTE_ORDER:
        form[BIG] = 1
    else:
        return False
    form[INTERFACES] = 0
    return True


def packet(
    data: Bytes,
    at: int,
    end: int,
    kind: int,
    form: Int64s,
    interfaces: Int64s,
    records: Int64s,
    place: int,
    counts: Int64s,
) -> bool:
    """Read a packet's block, whose body is data[at:end]; False if its lengths are invalid."""
    big = form[BIG] != 0
    number = 0
    head = 20
    if kind == SIMPLE:
        head = 4
    elif kind == ENHANCED:
        number = u32(data, at, big) if at + head <= end else 0
    else:
        number = u16(data, at, big) if at + head <= end else 0
    if at + head > end or number >= form[INTERFACES]:
        return False
    of = number * INTERFACE_WORDS
    if kind == SIMPLE:
        on_wire = u32(data, at, big)
        length = min(on_wire, end - at - head)
        if interfaces[of + OF_SNAP] > 0:
            length = min(length, interfaces[of + OF_SNAP])
        counts[NO_TIME] += 1
        records[place + TIME] = 0
    else:
        length = u32(data, at + 12, big)
        on_wire = u32(data, at + 16, big)
        if length > end - at - head:
            return False
        records[place + TIME] = nanoseconds(
            u32(data, at + 4, big),
            u32(data, at + 8, big),
            interfaces[of + OF_RESOLUTION],
            interfaces[of + OF_OFFSET],
            counts,
        )
    records[place + BEGIN] = at + head
    records[place + END] = at + head + length
    records[place + WIRE_END] = at + head + max(length, min(on_wire, MAX_RECORD_BYTES))
    records[place + LINK_TYPE] = interfaces[of + OF_LINK]
    return True


@native
def walk_pcapng(
    data: Bytes,
    at: int,
    end: int,
    form: Int64s,
    interfaces: Int64s,
    records: Int64s,
    counts: Int64s,
) -> tuple[int, int]:
    """Find packets from `at` on, like walk_pcap for the other format.

    `interfaces` has room for MAX_INTERFACES; a section with more is damaged.
    """
    count = 0
    full = len(records) // RECORD_WORDS
    while count < full:
        if at + 12 > end:
            form[WANTED] = 12
            break
        kind = le32(data, at)  # the same in both byte orders for a section
        if kind == SECTION and not section(data, at, end, form):
            counts[DAMAGED] = at + 1
            break
        big = form[BIG] != 0
        kind = u32(data, at, big)
        length = u32(data, at + 4, big)
        if length < 12 or length & 3 or length > MAX_BLOCK_BYTES:
            counts[DAMAGED] = at + 1
            break
        if at + length > end:
            form[WANTED] = length
            break
        body_end = at + length - 4
        if kind == INTERFACE:
            if form[INTERFACES] >= MAX_INTERFACES:
                counts[DAMAGED] = at + 1
                break
            if length >= 20:
                interface(data, at + 8, body_end, big, interfaces, form[INTERFACES])
                form[INTERFACES] += 1
        elif kind in (ENHANCED, SIMPLE, OLD_PACKET):
            place = count * RECORD_WORDS
            if not packet(data, at + 8, body_end, kind, form, interfaces, records, place, counts):
                counts[DAMAGED] = at + 1
                break
            records[place + RECORD] = at
            count += 1
        elif kind in NUMBERED:
            place = count * RECORD_WORDS
            for word in range(RECORD_WORDS):
                records[place + word] = at
            records[place + LINK_TYPE] = OF_NO_PACKET
            count += 1
        at += length
    return count, at
