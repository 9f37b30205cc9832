"""From records to rows: one compiled loop over TCP headers, options and connections.

Source: RFC 9293, RFC 7323 (window scale, timestamps), RFC 2018 (SACK). Relative numbers and window
scaling follow Wireshark (packet-tcp.c): a direction's numbers count from its SYN, or from one less
than the first seen (or first acknowledged) where the capture has no SYN; a window is scaled by what
the sender's SYN said, by nothing where either SYN has no such option, and is unknown (-1; Wireshark
shows it as sent, with scale factor -1) where the sender's SYN is not in the capture.
"""

from __future__ import annotations

from labs.read.capture.connection_tracking import (
    BY_FIN,
    BY_RESET,
    NO_SCALING,
    OPEN,
    SCALE_UNKNOWN,
    WORD,
    Connection,
    Side,
    begin,
    direction_in,
    slot_of,
    unwrapped,
)
from labs.read.capture.encapsulation import find_tcp
from labs.read.capture.headers import TOO_BIG, Frame, Packet
from labs.read.capture.pcap import OF_NO_PACKET
from labs.read.capture.segment_table import (
    ACK,
    BACKWARDS,
    FIN,
    HTTP_REQUEST,
    HTTP_RESPONSE,
    ICMP_ERROR,
    LAST_NS,
    NO_PACKET,
    OTHER,
    PACKETS,
    RST,
    SACK_EDGES,
    SEGMENTS,
    SYN,
    TLS_DATA,
    TLS_HANDSHAKE,
    Columns,
)
from labs.read.native.compiled import (
    Bytes,
    Int32s,
    Int64s,
    Record,
    Records,
    be16,
    be32,
    native,
    rare,
    record,
)

NOP, MSS_OPTION, SCALE_OPTION, SACK_OK_OPTION, SACK_OPTION, TIME_OPTION = 1, 2, 3, 4, 5, 8
ALIGNED_TIMESTAMP = 0x0101080A
MAX_SCALE = 14


@record
class Options(Record):
    """What a segment's options say; -1 is absent, `cut` whether they were not captured whole."""

    tsval: int
    tsecr: int
    sack_blocks: int
    mss: int
    scale: int
    sack_permitted: int
    cut: int


@record
class Segment(Record):
    """A TCP segment on its way to its row: where its packet and the captured bytes are, what its
    header and options say, its time, and its direction: 0 from the client."""

    packet: Packet
    options: Options
    end: int
    time_ns: int
    flags: int
    seq: int
    ack: int
    window: int
    payload: int
    direction: int


@record
class State(Record):
    """The state of the loop between calls: how many connections there are, that of the last
    segment, and the next row of the columns."""

    segment: Segment
    connections: int
    last: int
    row: int


@rare
def read_options(
    data: Bytes, at: int, end: int, row: int, options: Options, columns: Columns
) -> None:
    """Read the TCP options in data[at:end]; SACK edges into row `row`.

    Incomplete options are not read.
    """
    options.tsval = options.tsecr = options.mss = -1
    options.sack_blocks = options.sack_permitted = 0
    options.scale = SCALE_UNKNOWN
    while at < end:
        kind = data[at]
        if kind == 0:
            return
        if kind == NOP:
            at += 1
            continue
        if at + 2 > end:
            return
        length = data[at + 1]
        if length < 2 or at + length > end:
            return
        if kind == TIME_OPTION and length == 10:
            options.tsval, options.tsecr = be32(data, at + 2), be32(data, at + 6)
        elif kind == SACK_OPTION and length >= 10 and length % 8 == 2:
            blocks = min((length - 2) // 8, SACK_EDGES // 2)
            for edge in range(2 * blocks, 2 * options.sack_blocks):
                columns.sack[edge, row] = 0  # of an earlier such option
            options.sack_blocks = blocks
            for edge in range(2 * blocks):
                columns.sack[edge, row] = be32(data, at + 2 + 4 * edge)
        elif kind == MSS_OPTION and length == 4:
            options.mss = be16(data, at + 2)
        elif kind == SCALE_OPTION and length == 3:
            options.scale = min(data[at + 2], MAX_SCALE)
        elif kind == SACK_OK_OPTION and length == 2:
            options.sack_permitted = 1
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


def take_options(data: Bytes, segment: Segment, header: int, row: int, columns: Columns) -> None:
    """Take the options of a segment whose TCP header has so many bytes.

    Only those of a SYN are all taken: nearly every other segment has only timestamps, aligned as by
    Linux.
    """
    at, end, options = segment.packet.tcp_at, segment.end, segment.options
    if (
        header == 32
        and segment.flags & SYN == 0
        and at + 32 <= end
        and be32(data, at + 20) == ALIGNED_TIMESTAMP
    ):
        options.tsval, options.tsecr = be32(data, at + 24), be32(data, at + 28)
        options.sack_blocks, options.mss = 0, -1
        return
    options.cut = at + header > end
    read_options(data, at + 20, min(at + header, end), row, options, columns)


@rare
def take_syn(connection: Connection, side: Side, other: Side, segment: Segment) -> None:
    """Store the options of a SYN or SYN-ACK for its sender."""
    options = segment.options
    side.syn_seen, side.mss, side.scale_offered = 1, options.mss, options.scale
    side.sack_permitted, side.timestamps = options.sack_permitted, options.tsval >= 0
    if options.scale >= 0:
        side.scale = options.scale
    if options.cut and options.scale < 0:
        pass  # it may have had the option: unknown
    elif side.scale == SCALE_UNKNOWN:
        side.scale = other.scale = NO_SCALING
    elif segment.flags & ACK and other.scale == NO_SCALING:
        side.scale = NO_SCALING
    if segment.flags & ACK == 0:
        connection.syn_ns = segment.time_ns


@rare
def take_end(connection: Connection, side: Side, flags: int) -> None:
    """Note a FIN or a reset."""
    if flags & FIN:
        side.fin_seen = 1
    if connection.ended != OPEN:
        return
    if flags & RST:
        connection.ended = BY_RESET
    elif connection.by_client.fin_seen and connection.by_server.fin_seen:
        connection.ended = BY_FIN


def direction_of(packet: Packet, connection: Connection) -> int:
    """The packet's direction in the connection; -1 if it belongs to another pair."""
    return direction_in(connection, packet.source, packet.target, packet.version)


@rare
def slot_for(packet: Packet, table: Records[Connection], slots: Int32s) -> int:
    """The slot of the packet's pair of ends."""
    return slot_of(table, slots, packet.source, packet.target, packet.version)


def find_connection(
    segment: Segment, state: State, table: Records[Connection], slots: Int32s
) -> int:
    """The number of the segment's connection, and its direction; a new connection if it begins
    one."""
    number, packet, direction, slot = state.last, segment.packet, -1, -1
    if number < state.connections:
        direction = direction_of(packet, table[number])
    if direction < 0:
        slot = slot_for(packet, table, slots)
        if slots[slot] != 0:
            number = slots[slot] - 1
            direction = direction_of(packet, table[number])
    if direction >= 0 and segment.flags & (SYN | ACK) == SYN:
        side = table[number].by_server if direction else table[number].by_client
        if side.base_set and side.base != segment.seq:
            direction = -1
    if direction < 0:
        if slot < 0:
            slot = slot_for(packet, table, slots)
        number = state.connections
        state.connections += 1
        slots[slot] = number + 1
        direction = begin(table[number], packet, segment.flags, segment.time_ns)
    state.last, segment.direction = number, direction
    return number


@native
def rows(
    data: Bytes,
    frames: Records[Frame],
    first: int,
    last: int,
    base: int,
    state: State,
    table: Records[Connection],
    slots: Int32s,
    counts: Int64s,
    columns: Columns,
) -> int:
    """Turn frames first to last - 1 into rows from row state.row on; return the next frame.

    It stops early if the columns or the connections are full: the caller enlarges them. `base` is
    the offset of the buffer in the file.
    """
    row, begun, segment = state.row, first, state.segment
    while first < last and row < len(columns.time_ns) and state.connections < len(table):
        frame = frames[first]
        first += 1
        here = counts[PACKETS] + first - begun
        if not find_segment(data, frame, here, table, slots, counts, segment.packet):
            continue
        columns.offset[row] = base + frame.at
        columns.frame[row] = here
        take_header(data, frame, segment, row, columns)
        number = find_connection(segment, state, table, slots)
        columns.connection[row] = number
        write_row(segment, row, columns)
        follow(table[number], segment, row, columns)
        row += 1
    counts[PACKETS] += first - begun
    counts[SEGMENTS] += row - state.row
    state.row = row
    return first


def find_segment(
    data: Bytes,
    frame: Frame,
    number: int,
    table: Records[Connection],
    slots: Int32s,
    counts: Int64s,
    packet: Packet,
) -> bool:
    """Find the TCP segment of a frame; count why there is none."""
    if frame.link == OF_NO_PACKET:
        counts[NO_PACKET] += 1
        return False
    if frame.time_ns < counts[LAST_NS]:
        counts[BACKWARDS] += 1
    counts[LAST_NS] = frame.time_ns
    why = find_tcp(data, frame, packet, counts)
    if why == 0:
        return True
    counts[why] += 1
    if why == ICMP_ERROR:
        take_error(data, packet, number, table, slots)
    return False


@rare
def take_error(
    data: Bytes, packet: Packet, number: int, table: Records[Connection], slots: Int32s
) -> None:
    """Note an ICMP error at the connection of the packet that it quotes, if there is one."""
    at = packet.tcp_at
    packet.source.port, packet.target.port = be16(data, at), be16(data, at + 2)
    slot = slot_for(packet, table, slots)
    if slots[slot] == 0:
        return
    connection = table[slots[slot] - 1]
    if packet.identification != TOO_BIG:
        connection.unreachable = packet.identification + 1
    elif connection.too_big_mtu == 0 or packet.hops < connection.too_big_mtu:
        connection.too_big_mtu, connection.too_big_frame = max(packet.hops, 1), number
        source, target = packet.source, packet.target
        connection.too_big_of = max(direction_in(connection, source, target, packet.version), 0)


def take_header(data: Bytes, frame: Frame, segment: Segment, row: int, columns: Columns) -> None:
    """Take the header, the options and the ports of the segment at packet.tcp_at; write what its
    payload begins with."""
    packet = segment.packet
    at = packet.tcp_at
    words = be16(data, at + 12)
    header = (words >> 12) * 4
    packet.source.port, packet.target.port = be16(data, at), be16(data, at + 2)
    segment.end, segment.time_ns = frame.end, frame.time_ns
    segment.seq, segment.ack = be32(data, at + 4), be32(data, at + 8)
    segment.flags, segment.window = words & 0x1FF, be16(data, at + 14)
    segment.payload = packet.tcp_bytes - header
    take_options(data, segment, header, row, columns)
    if segment.payload > 0:
        columns.content[row] = content_of(data, at + header, frame.end)


def write_row(segment: Segment, row: int, columns: Columns) -> None:
    """Write the columns of a segment that do not depend on its connection."""
    columns.time_ns[row] = segment.time_ns
    columns.direction[row] = segment.direction
    columns.seq[row], columns.ack[row] = segment.seq, segment.ack
    columns.flags[row], columns.window[row] = segment.flags, segment.window
    columns.payload_bytes[row] = segment.payload
    columns.mss[row] = max(segment.options.mss, 0)
    columns.tsval[row], columns.tsecr[row] = segment.options.tsval, segment.options.tsecr
    columns.sack_blocks[row] = segment.options.sack_blocks
    columns.ip_id[row], columns.ttl[row] = segment.packet.identification, segment.packet.hops


def follow(connection: Connection, segment: Segment, row: int, columns: Columns) -> None:
    """Bring a connection up to this segment; write what of the row depends on it."""
    flags, seq = segment.flags, segment.seq
    side = connection.by_server if segment.direction else connection.by_client
    other = connection.by_client if segment.direction else connection.by_server
    connection.last_ns = segment.time_ns
    if flags & (SYN | FIN | RST):
        if flags & SYN:
            take_syn(connection, side, other, segment)
        if flags & (FIN | RST):
            take_end(connection, side, flags)
    if not side.base_set:
        side.base_set, side.base = 1, seq if flags & SYN else (seq - 1) & WORD
        side.next = 0 if flags & SYN else 1
    relative, acknowledged = unwrapped((seq - side.base) & WORD, side.next), 0
    if flags & ACK:
        if not other.base_set:
            other.base_set, other.base, other.next = 1, (segment.ack - 1) & WORD, 1
        acknowledged = unwrapped((segment.ack - other.base) & WORD, side.acked)
        side.acked = max(acknowledged, side.acked)
        if connection.handshake_ns < 0 and segment.direction == 0:
            take_handshake(connection, segment)
    if segment.payload > 0:
        side.bytes += segment.payload
        if relative < side.next:
            side.retransmissions += 1
    side.segments += 1
    after = relative + segment.payload + (flags >> 1 & 1) + (flags & FIN)
    side.next = max(after, side.next)
    columns.seq_rel[row], columns.ack_rel[row] = relative, acknowledged
    columns.window_bytes[row] = scaled(segment.window, flags, side.scale)


@rare
def take_handshake(connection: Connection, segment: Segment) -> None:
    """Measure the handshake at the client's first ACK, if both SYNs were captured."""
    seen = connection.by_client.syn_seen and connection.by_server.syn_seen
    if seen and segment.flags & SYN == 0:
        connection.handshake_ns = segment.time_ns - connection.syn_ns


def scaled(window: int, flags: int, scale: int) -> int:
    """The window in bytes; that of a SYN is never scaled; -1 if the scale is unknown."""
    if flags & SYN == 0:
        if scale >= 0:
            return window << scale
        if scale == SCALE_UNKNOWN:
            return -1
    return window
