"""From records to rows: one compiled loop over TCP headers, options and connections.

Source: RFC 9293, RFC 7323 (window scale, timestamps), RFC 2018 (SACK). Relative numbers and window
scaling follow Wireshark (packet-tcp.c): a direction's numbers count from its SYN, or from one less
than the first seen (or first acknowledged) where the capture has no SYN; a window is scaled by what
the sender's SYN said, by nothing where either SYN has no such option, and is unknown (-1; Wireshark
shows it as sent, with scale factor -1) where the sender's SYN is not in the capture.
"""

from __future__ import annotations

from labs.read.capture.connection_tracking import (
    ACKED,
    BASE,
    BASE_SET,
    BY_FIN,
    BY_RESET,
    BYTES,
    CONNECTION_WORDS,
    DIRECTION_WORDS,
    DIRECTIONS,
    ENDED,
    FIN_SEEN,
    HANDSHAKE_NS,
    MSS,
    NEXT,
    NO_SCALING,
    OPEN,
    RETRANSMITTED,
    SACK_PERMITTED,
    SCALE,
    SCALE_UNKNOWN,
    SENT,
    SOURCE_PORT,
    SYN_NS,
    SYN_SEEN,
    TARGET_PORT,
    TIMESTAMPS,
    UNREACHABLE,
    WORD,
    begin,
    direction_in,
    slot_of,
    unwrapped,
)
from labs.read.capture.connection_tracking import LAST_NS as LAST_SEEN_NS
from labs.read.capture.encapsulation import find_tcp
from labs.read.capture.headers import (
    IDENTIFICATION,
    SOURCE_HIGH,
    SOURCE_LOW,
    TARGET_HIGH,
    TARGET_LOW,
    TCP_AT,
    TCP_BYTES,
    TOO_BIG,
    VERSION,
)
from labs.read.capture.pcap import (
    BEGIN,
    END,
    LINK_TYPE,
    OF_NO_PACKET,
    RECORD,
    RECORD_WORDS,
    TIME,
    WIRE_END,
)
from labs.read.capture.segment_table import (
    ACK,
    ACK_NUMBER,
    ACK_REL,
    BACKWARDS,
    CONNECTION,
    CONTENT,
    DIRECTION,
    FIN,
    FLAGS,
    FRAME,
    HTTP_REQUEST,
    HTTP_RESPONSE,
    ICMP_ERROR,
    IP_ID,
    LAST_NS,
    MSS_BYTES,
    NO_PACKET,
    OFFSET,
    OTHER,
    PACKETS,
    PAYLOAD_BYTES,
    RST,
    SACK_BLOCKS,
    SACK_EDGES,
    SEGMENTS,
    SEQ,
    SEQ_REL,
    SYN,
    TIME_NS,
    TLS_DATA,
    TLS_HANDSHAKE,
    TSECR,
    TSVAL,
    WINDOW,
    WINDOW_BYTES,
)
from labs.read.native.compiled import (
    Bytes,
    Int8s,
    Int32s,
    Int64s,
    Uint16s,
    Uint32s,
    be16,
    be32,
    native,
)

NOP, MSS_OPTION, SCALE_OPTION, SACK_OK_OPTION, SACK_OPTION, TIME_OPTION = 1, 2, 3, 4, 5, 8
ALIGNED_TIMESTAMP = 0x0101080A
MAX_SCALE = 14

# What a packet's options say, in an array of int64; -1 is absent.
O_TSVAL, O_TSECR, O_SACK, O_MSS, O_SCALE, O_SACK_OK, O_CUT, OPTION_WORDS = range(8)


def read_options(data: Bytes, at: int, end: int, row: int, options: Int64s, edges: Uint32s) -> None:
    """Read the TCP options in data[at:end] into `options`; SACK edges into row `row` of `edges`.

    Incomplete options are not read.
    """
    options[O_TSVAL] = -1
    options[O_TSECR] = -1
    options[O_SACK] = 0
    options[O_MSS] = -1
    options[O_SCALE] = SCALE_UNKNOWN
    options[O_SACK_OK] = 0
    while at < end:
        kind = data[at]
        if kind == 0:
            return
        if kind == NOP:
            at += 1
            continue
        if at + 2 > end:
            return
        length = int(data[at + 1])
        if length < 2 or at + length > end:
            return
        if kind == TIME_OPTION and length == 10:
            options[O_TSVAL] = be32(data, at + 2)
            options[O_TSECR] = be32(data, at + 6)
        elif kind == SACK_OPTION and length >= 10 and length % 8 == 2:
            blocks = min((length - 2) // 8, SACK_EDGES // 2)
            for edge in range(2 * blocks, 2 * options[O_SACK]):
                edges[edge, row] = 0  # of an earlier such option
            options[O_SACK] = blocks
            for edge in range(2 * blocks):
                edges[edge, row] = be32(data, at + 2 + 4 * edge)
        elif kind == MSS_OPTION and length == 4:
            options[O_MSS] = be16(data, at + 2)
        elif kind == SCALE_OPTION and length == 3:
            options[O_SCALE] = min(int(data[at + 2]), MAX_SCALE)
        elif kind == SACK_OK_OPTION and length == 2:
            options[O_SACK_OK] = 1
        at += length


# The first bytes of a TLS record (RFC 8446 5.1) and of HTTP's methods and status line (RFC 9112).
RECORD_HANDSHAKE, RECORD_DATA, TLS_MAJOR = 22, 23, 3
METHODS = (0x47455420, 0x504F5354, 0x48454144, 0x50555420, 0x44454C45, 0x4F505449, 0x50415443)
STATUS_LINE = 0x48545450


def content_of(data: Bytes, at: int, end: int) -> int:
    """What the captured part of a payload, data[at:end], begins with."""
    if at + 4 > end:
        return OTHER
    first = be32(data, at)
    if data[at + 1] == TLS_MAJOR and data[at + 2] <= 4:
        if data[at] == RECORD_HANDSHAKE:
            return TLS_HANDSHAKE
        if data[at] == RECORD_DATA:
            return TLS_DATA
    if first == STATUS_LINE:
        return HTTP_RESPONSE
    return HTTP_REQUEST if first in METHODS else OTHER


def options_of(
    data: Bytes,
    at: int,
    end: int,
    header: int,
    flags: int,
    row: int,
    options: Int64s,
    edges: Uint32s,
) -> tuple[int, int, int, int]:
    """The TSval and TSecr of the TCP header at `at`, the number of SACK blocks, and the MSS or 0.

    `options` contains all options of a SYN; for another segment it may contain those of an earlier
    one.
    """
    if (
        header == 32
        and flags & SYN == 0
        and at + 32 <= end
        and be32(data, at + 20) == ALIGNED_TIMESTAMP
    ):
        # Nearly every segment: only timestamps, aligned as by Linux.
        return be32(data, at + 24), be32(data, at + 28), 0, 0
    options[O_CUT] = at + header > end
    read_options(data, at + 20, min(at + header, end), row, options, edges)
    return options[O_TSVAL], options[O_TSECR], options[O_SACK], max(options[O_MSS], 0)


def take_syn(
    table: Int64s, at: int, direction: int, flags: int, seen_ns: int, options: Int64s
) -> None:
    """Store the options of a SYN or SYN-ACK for its sender."""
    side = at + DIRECTIONS + (direction & 1) * DIRECTION_WORDS
    other = at + DIRECTIONS + ((direction ^ 1) & 1) * DIRECTION_WORDS
    table[side + SYN_SEEN] = 1
    table[side + MSS] = options[O_MSS]
    table[side + SACK_PERMITTED] = options[O_SACK_OK]
    table[side + TIMESTAMPS] = 1 if options[O_TSVAL] >= 0 else 0
    if options[O_SCALE] >= 0:
        table[side + SCALE] = options[O_SCALE]
    if options[O_CUT] and options[O_SCALE] < 0:
        pass  # it may have had the option: unknown
    elif table[side + SCALE] == SCALE_UNKNOWN:
        table[side + SCALE] = NO_SCALING
        table[other + SCALE] = NO_SCALING
    elif flags & ACK and table[other + SCALE] == NO_SCALING:
        table[side + SCALE] = NO_SCALING
    if flags & ACK == 0:
        table[at + SYN_NS] = seen_ns


def take_end(table: Int64s, at: int, direction: int, flags: int) -> None:
    """Note a FIN or a reset."""
    side = at + DIRECTIONS
    if flags & FIN:
        table[side + (direction & 1) * DIRECTION_WORDS + FIN_SEEN] = 1
    if table[at + ENDED] != OPEN:
        return
    if flags & RST:
        table[at + ENDED] = BY_RESET
    elif table[side + FIN_SEEN] and table[side + DIRECTION_WORDS + FIN_SEEN]:
        table[at + ENDED] = BY_FIN


def direction_of(packet: Int64s, at: int, table: Int64s) -> int:
    """The packet's direction in the connection at `at`; -1 if it belongs to another pair."""
    return direction_in(
        at,
        table,
        packet[SOURCE_HIGH],
        packet[SOURCE_LOW],
        packet[SOURCE_PORT],
        packet[TARGET_HIGH],
        packet[TARGET_LOW],
        packet[TARGET_PORT],
        packet[VERSION],
    )


def slot_for(packet: Int64s, table: Int64s, slots: Int32s) -> int:
    """The slot of the packet's pair of ends."""
    return slot_of(
        table,
        slots,
        packet[SOURCE_HIGH],
        packet[SOURCE_LOW],
        packet[SOURCE_PORT],
        packet[TARGET_HIGH],
        packet[TARGET_LOW],
        packet[TARGET_PORT],
        packet[VERSION],
    )


def find_connection(
    packet: Int64s, flags: int, seq: int, seen_ns: int, state: Int64s, table: Int64s, slots: Int32s
) -> tuple[int, int]:
    """The packet's connection and direction; a new connection if the packet begins one."""
    connection = state[LAST_CONNECTION]
    at = connection * CONNECTION_WORDS
    direction = -1
    slot = -1
    if connection < state[CONNECTIONS]:
        direction = direction_of(packet, at, table)
    if direction < 0:
        slot = slot_for(packet, table, slots)
        if slots[slot] != 0:
            connection = slots[slot] - 1
            at = connection * CONNECTION_WORDS
            direction = direction_of(packet, at, table)
    if direction >= 0 and flags & (SYN | ACK) == SYN:
        side = at + DIRECTIONS + (direction & 1) * DIRECTION_WORDS
        if table[side + BASE_SET] and table[side + BASE] != seq:
            direction = -1
    if direction < 0:
        if slot < 0:
            slot = slot_for(packet, table, slots)
        connection = state[CONNECTIONS]
        state[CONNECTIONS] += 1
        slots[slot] = connection + 1
        direction = begin(connection, table, packet, flags, seen_ns)
    state[LAST_CONNECTION] = connection
    return connection, direction


# The state of the loop between calls, in an array of int64.
CONNECTIONS, LAST_CONNECTION, ROW, CAPACITY, STATE_WORDS = range(5)


@native
def rows(
    data: Bytes,
    records: Int64s,
    first: int,
    last: int,
    base: int,
    state: Int64s,
    table: Int64s,
    slots: Int32s,
    counts: Int64s,
    packet: Int64s,
    options: Int64s,
    wide: Int64s,
    numbers: Uint32s,
    middle: Int32s,
    narrow: Uint16s,
    small: Int8s,
    edges: Uint32s,
) -> int:
    """Turn records first to last - 1 into rows from row state[ROW] on; return the next record.

    It stops early if the columns or the connections are full: the caller enlarges them. `base` is
    the offset of the buffer in the file.
    """
    row = state[ROW]
    capacity = state[CAPACITY]
    most_connections = len(table) // CONNECTION_WORDS
    begun = first
    while first < last and row < capacity and state[CONNECTIONS] < most_connections:
        place = first * RECORD_WORDS
        first += 1
        if not find_segment(data, records, place, table, slots, counts, packet):
            continue
        offset = base + records[place + RECORD]
        frame = counts[PACKETS] + first - begun
        write_row(
            data,
            records[place + END],
            records[place + TIME],
            offset,
            frame,
            row,
            wide,
            numbers,
            middle,
            narrow,
            small,
            edges,
            state,
            table,
            slots,
            packet,
            options,
        )
        row += 1
    counts[PACKETS] += first - begun
    counts[SEGMENTS] += row - state[ROW]
    state[ROW] = row
    return first


def find_segment(
    data: Bytes,
    records: Int64s,
    place: int,
    table: Int64s,
    slots: Int32s,
    counts: Int64s,
    packet: Int64s,
) -> bool:
    """Find the TCP segment of the record at `place`; count why there is none."""
    if records[place + LINK_TYPE] == OF_NO_PACKET:
        counts[NO_PACKET] += 1
        return False
    if records[place + TIME] < counts[LAST_NS]:
        counts[BACKWARDS] += 1
    counts[LAST_NS] = records[place + TIME]
    why = find_tcp(
        data,
        records[place + BEGIN],
        records[place + END],
        records[place + WIRE_END],
        records[place + LINK_TYPE],
        packet,
        counts,
    )
    if why == 0:
        return True
    counts[why] += 1
    if why == ICMP_ERROR:
        take_error(data, packet, table, slots)
    return False


def take_error(data: Bytes, packet: Int64s, table: Int64s, slots: Int32s) -> None:
    """Note an ICMP error at the connection of the packet that it quotes, if there is one."""
    at = packet[TCP_AT]
    packet[SOURCE_PORT] = be16(data, at)
    packet[TARGET_PORT] = be16(data, at + 2)
    slot = slot_for(packet, table, slots)
    if slots[slot] != 0 and packet[IDENTIFICATION] != TOO_BIG:
        word = (slots[slot] - 1) * CONNECTION_WORDS + UNREACHABLE
        table[word] = packet[IDENTIFICATION] + 1


def write_row(
    data: Bytes,
    end: int,
    seen_ns: int,
    offset: int,
    frame: int,
    row: int,
    wide: Int64s,
    numbers: Uint32s,
    middle: Int32s,
    narrow: Uint16s,
    small: Int8s,
    edges: Uint32s,
    state: Int64s,
    table: Int64s,
    slots: Int32s,
    packet: Int64s,
    options: Int64s,
) -> None:
    """Write row `row` of the TCP segment whose header is at packet[TCP_AT].

    `end` is where the captured bytes of its record end, `offset` where the record is in the file,
    `frame` its number there.
    """
    at = packet[TCP_AT]
    header = (data[at + 12] >> 4) * 4
    flags = be16(data, at + 12) & 0x1FF
    seq = be32(data, at + 4)
    window = be16(data, at + 14)
    payload = packet[TCP_BYTES] - header
    write_header(data, at, row, numbers, narrow, packet)
    tsval, tsecr, blocks, mss = options_of(data, at, end, header, flags, row, options, edges)
    connection, direction = find_connection(packet, flags, seq, seen_ns, state, table, slots)
    wide[TIME_NS, row] = seen_ns
    wide[OFFSET, row] = offset
    wide[FRAME, row] = frame
    middle[IP_ID, row] = packet[IDENTIFICATION]
    small[CONTENT, row] = content_of(data, at + header, end) if payload > 0 else OTHER
    wide[TSVAL, row] = tsval
    wide[TSECR, row] = tsecr
    middle[CONNECTION, row] = connection
    middle[PAYLOAD_BYTES, row] = payload
    narrow[MSS_BYTES, row] = mss
    small[DIRECTION, row] = direction
    small[SACK_BLOCKS, row] = blocks
    follow(
        connection * CONNECTION_WORDS,
        direction,
        flags,
        seq,
        be32(data, at + 8),
        window,
        payload,
        seen_ns,
        row,
        options,
        table,
        wide,
        middle,
    )


def write_header(
    data: Bytes, at: int, row: int, numbers: Uint32s, narrow: Uint16s, packet: Int64s
) -> None:
    """Write the columns that a TCP header has as they are, and note its ports."""
    packet[SOURCE_PORT] = be16(data, at)
    packet[TARGET_PORT] = be16(data, at + 2)
    numbers[SEQ, row] = be32(data, at + 4)
    numbers[ACK_NUMBER, row] = be32(data, at + 8)
    narrow[FLAGS, row] = be16(data, at + 12) & 0x1FF
    narrow[WINDOW, row] = be16(data, at + 14)


def follow(
    at: int,
    direction: int,
    flags: int,
    seq: int,
    ack: int,
    window: int,
    payload: int,
    seen_ns: int,
    row: int,
    options: Int64s,
    table: Int64s,
    wide: Int64s,
    middle: Int32s,
) -> None:
    """Bring the connection at `at` up to this segment; write what of the row depends on it."""
    side = at + DIRECTIONS + (direction & 1) * DIRECTION_WORDS
    other = at + DIRECTIONS + ((direction ^ 1) & 1) * DIRECTION_WORDS
    table[at + LAST_SEEN_NS] = seen_ns
    if flags & SYN:
        take_syn(table, at, direction, flags, seen_ns, options)
    if flags & (FIN | RST):
        take_end(table, at, direction, flags)
    if table[side + BASE_SET] == 0:
        table[side + BASE_SET] = 1
        table[side + BASE] = seq if flags & SYN else (seq - 1) & WORD
        table[side + NEXT] = 0 if flags & SYN else 1
    relative = unwrapped((seq - table[side + BASE]) & WORD, table[side + NEXT])
    acknowledged = 0
    if flags & ACK:
        if table[other + BASE_SET] == 0:
            table[other + BASE_SET] = 1
            table[other + BASE] = (ack - 1) & WORD
            table[other + NEXT] = 1
        acknowledged = unwrapped((ack - table[other + BASE]) & WORD, table[side + ACKED])
        table[side + ACKED] = max(acknowledged, table[side + ACKED])
        if (
            direction == 0
            and flags & SYN == 0
            and table[at + HANDSHAKE_NS] < 0
            and table[side + SYN_SEEN]
            and table[other + SYN_SEEN]
        ):
            table[at + HANDSHAKE_NS] = seen_ns - table[at + SYN_NS]
    if payload > 0:
        table[side + BYTES] += payload
        if relative < table[side + NEXT]:
            table[side + RETRANSMITTED] += 1
    table[side + SENT] += 1
    after = relative + payload + (flags & SYN) // SYN + (flags & FIN) // FIN
    table[side + NEXT] = max(after, table[side + NEXT])
    wide[SEQ_REL, row] = relative
    wide[ACK_REL, row] = acknowledged
    middle[WINDOW_BYTES, row] = scaled(window, flags, table[side + SCALE])


def scaled(window: int, flags: int, scale: int) -> int:
    """The window in bytes; that of a SYN is never scaled; -1 if the scale is unknown."""
    if flags & SYN == 0:
        if scale >= 0:
            return window << scale
        if scale == SCALE_UNKNOWN:
            return -1
    return window
