"""Capture files, pcap and pcapng: the place of each record's frame, and its time.

Source: pcap-savefile(5); the record header of 24 bytes is Kuznetzov's modified format, as libpcap's
sf-pcap.c reads it. The pcapng specification (draft-ietf-opsawg-pcapng), sections
4.1 to 4.4 and its appendix on the obsolete Packet Block.
"""

from __future__ import annotations

import struct

from labs.read.capture.headers import Frame
from labs.read.capture.segment_table import ABSURD_TIME, DAMAGED, NO_TIME
from labs.read.native.compiled import (
    Bytes,
    Int64s,
    Record,
    Records,
    be16,
    be32,
    le16,
    le32,
    native,
    record,
)


@record
class Form(Record):
    """The form of a file: its byte order, of pcap three numbers more, the bytes that the next
    record takes, and how many interfaces a section of pcapng has so far."""

    big: int
    header_bytes: int
    ns_per_unit: int
    link: int
    wanted: int
    interfaces: int


@record
class Interface(Record):
    """An interface of pcapng: link type, snap length, resolution, and offset in seconds."""

    link: int
    snap: int
    resolution: int
    offset_s: int


FILE_HEADER_BYTES = 24
MAX_RECORD_BYTES = 1 << 24
SECOND_NS = 10**9
LINK_MASK = 0x03FFFFFF  # the upper bits are the length of the frame check sequence

MAGIC = {0xA1B2C3D4: (16, 1000), 0xA1B23C4D: (16, 1), 0xA1B2CD34: (24, 1000)}


def pcap_form(head: bytes) -> Form | None:
    """The form of a pcap file by its first 24 bytes; None for another file."""
    if len(head) < FILE_HEADER_BYTES:
        return None
    for order in "<>":
        (magic,) = struct.unpack_from(order + "I", head)
        if magic in MAGIC:
            header_bytes, ns_per_unit = MAGIC[magic]
            (link,) = struct.unpack_from(order + "I", head, 20)
            return Form(order == ">", header_bytes, ns_per_unit, link & LINK_MASK)
    return None


@native
def walk_pcap(
    data: Bytes, at: int, end: int, form: Form, frames: Records[Frame], counts: Int64s
) -> tuple[int, int]:
    """Find records from `at` on; return their number, and the place of the next one.

    It stops when `frames` is full, when the buffer has no further whole record (form.wanted is
    the size of the next one), and finally at an impossible length (counts[DAMAGED] is then 1 + its
    place in the buffer).
    """
    big = form.big != 0
    header = form.header_bytes
    ns_per_unit = form.ns_per_unit
    count = 0
    full = len(frames)
    while count < full:
        if at + header > end:
            form.wanted = header
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
            form.wanted = header + length
            break
        if fraction * ns_per_unit >= SECOND_NS:
            counts[ABSURD_TIME] += 1
        frame = frames[count]
        frame.begin, frame.end = begin, begin + length
        frame.wire_end = begin + max(length, min(on_wire, MAX_RECORD_BYTES))
        frame.time_ns = seconds * SECOND_NS + fraction * ns_per_unit
        frame.link, frame.at = form.link, at
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
MAX_INTERFACES = 1 << 16
MAX_BLOCK_BYTES = MAX_RECORD_BYTES + 4096
LATEST_S = 4_600_000_000  # two times this far apart differ by less than 64 bits of nanoseconds


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


def describe(data: Bytes, at: int, end: int, big: bool, interface: Interface) -> None:
    """Read an interface description, whose body is data[at:end]."""
    interface.link = u16(data, at, big)
    interface.snap = u32(data, at + 4, big)
    interface.resolution = MICROSECONDS
    interface.offset_s = 0
    option = at + 8
    while option + 4 <= end:
        code = u16(data, option, big)
        length = u16(data, option + 2, big)
        option += 4
        if code == 0 or option + length > end:
            break
        if code == TIME_RESOLUTION and length >= 1:
            interface.resolution = data[option]
        elif code == TIME_OFFSET and length >= 8:
            first = u32(data, option, big)
            second = u32(data, option + 4, big)
            high, low = (first, second) if big else (second, first)
            if high >= 1 << 31:
                high -= 1 << 32
            interface.offset_s = high * (1 << 32) + low
        option += (length + 3) & ~3


def section(data: Bytes, at: int, end: int, form: Form) -> bool:
    """Begin a section at the block at `at`; False if its byte order is invalid."""
    if le32(data, at + 8) == BYTE_ORDER:
        form.big = 0
    elif be32(data, at + 8) == BYTE_ORDER:
        form.big = 1
    else:
        return False
    form.interfaces = 0
    return True


def packet(
    data: Bytes,
    at: int,
    end: int,
    kind: int,
    form: Form,
    interfaces: Records[Interface],
    frame: Frame,
    counts: Int64s,
) -> bool:
    """Read a packet's block, whose body is data[at:end]; False if its lengths are invalid."""
    big = form.big != 0
    number = 0
    head = 20
    if kind == SIMPLE:
        head = 4
    elif kind == ENHANCED:
        number = u32(data, at, big) if at + head <= end else 0
    else:
        number = u16(data, at, big) if at + head <= end else 0
    if at + head > end or number >= form.interfaces:
        return False
    interface = interfaces[number]
    if kind == SIMPLE:
        on_wire = u32(data, at, big)
        length = min(on_wire, end - at - head)
        if interface.snap > 0:
            length = min(length, interface.snap)
        counts[NO_TIME] += 1
        frame.time_ns = 0
    else:
        length = u32(data, at + 12, big)
        on_wire = u32(data, at + 16, big)
        if length > end - at - head:
            return False
        frame.time_ns = nanoseconds(
            u32(data, at + 4, big),
            u32(data, at + 8, big),
            interface.resolution,
            interface.offset_s,
            counts,
        )
    frame.begin = at + head
    frame.end = at + head + length
    frame.wire_end = at + head + max(length, min(on_wire, MAX_RECORD_BYTES))
    frame.link = interface.link
    return True


@native
def walk_pcapng(
    data: Bytes,
    at: int,
    end: int,
    form: Form,
    interfaces: Records[Interface],
    frames: Records[Frame],
    counts: Int64s,
) -> tuple[int, int]:
    """Find packets from `at` on, like walk_pcap for the other format.

    `interfaces` has room for MAX_INTERFACES; a section with more is damaged.
    """
    count = 0
    full = len(frames)
    while count < full:
        if at + 12 > end:
            form.wanted = 12
            break
        kind = le32(data, at)  # the same in both byte orders for a section
        if kind == SECTION and not section(data, at, end, form):
            counts[DAMAGED] = at + 1
            break
        big = form.big != 0
        kind = u32(data, at, big)
        length = u32(data, at + 4, big)
        if length < 12 or length & 3 or length > MAX_BLOCK_BYTES:
            counts[DAMAGED] = at + 1
            break
        if at + length > end:
            form.wanted = length
            break
        body_end = at + length - 4
        if kind == INTERFACE:
            if form.interfaces >= MAX_INTERFACES:
                counts[DAMAGED] = at + 1
                break
            if length >= 20:
                describe(data, at + 8, body_end, big, interfaces[form.interfaces])
                form.interfaces += 1
        elif kind in (ENHANCED, SIMPLE, OLD_PACKET):
            frame = frames[count]
            if not packet(data, at + 8, body_end, kind, form, interfaces, frame, counts):
                counts[DAMAGED] = at + 1
                break
            frame.at = at
            count += 1
        elif kind in NUMBERED:
            frame = frames[count]
            frame.at, frame.link = at, OF_NO_PACKET
            count += 1
        at += length
    return count, at
