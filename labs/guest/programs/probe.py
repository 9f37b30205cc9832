"""Check the link before a run: a handshake and a packet train through the shaped class.

    probe.py serve --listen ADDRESS --port 80 --packets 200
    probe.py measure --to ADDRESS --port 80 --packets 200 --out FILE
    (both: [--beside PORT])

The client times TCP handshakes with the server's port (the shortest one counts, since a lost packet
takes a second), then requests a packet train. The server sends it by UDP from the same port, so
that the filter directs it to the same class, and the client records the time of each arrival. The
rate is computed without the burst that the shaper lets pass at once.

--beside PORT is for machines, whose computation takes time: there are more handshakes, and further
ones with that port, which is not shaped. A program there may be slower than the link. Therefore the
train is sent in pieces that the kernel segments after the shaper, and the kernel records the times
of arrival. Writes one JSON object.
"""

import contextlib
import json
import socket
import struct
import sys
import time

PAYLOAD_BYTES = 1472
FRAME_BYTES = 1514
# htb lets `burst` and `cburst` pass unshaped: twice the requested 20 kB, in packets.
BURST_PACKETS = 30
HANDSHAKES = 3
# include/uapi/asm-generic/socket.h
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
TIMESPEC = struct.Struct("qq")
# include/uapi/linux/udp.h; this number of packets is less than a datagram's limit of 64 KiB.
UDP_SEGMENT = 103
PIECE_PACKETS = 44
TRAIN_BYTES = 8 << 20
HANDSHAKES_OF_MACHINES = 8


def options(argv: list[str]) -> dict[str, str]:
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


def serve(given: dict[str, str]) -> None:
    """Accept the handshakes; send a train when a connection names the port for it; end."""
    address = (given["listen"], int(given["port"]))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(16)
    train = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    train.bind(address)
    open_ports = [listener]
    if "beside" in given:
        # The kernel completes its handshakes; nobody accepts the connections.
        open_ports.append(socket.create_server((given["listen"], int(given["beside"])), backlog=16))
    while True:
        connection, peer = listener.accept()
        with connection:
            asked = connection.recv(2)
            if len(asked) < 2:
                continue
            port = struct.unpack("!H", asked)[0]
            packets, piece = int(given["packets"]), 1
            if "beside" in given:
                piece = PIECE_PACKETS
                train.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PAYLOAD_BYTES)
            for first in range(0, packets, piece):
                numbers = range(first, min(first + piece, packets))
                train.sendto(
                    b"".join(
                        struct.pack("!I", index) + bytes(PAYLOAD_BYTES - 4) for index in numbers
                    ),
                    (peer[0], port),
                )
            # Wait for the client to close: no packet of the check may be in flight in the run.
            connection.recv(1)
            return


def finish(connection: socket.socket) -> None:
    """Close the connection and wait for the server's FIN."""
    with connection:
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


def beside_ms(given: dict[str, str]) -> float | None:
    """The shortest handshake outside the shaped class; None without --beside."""
    found_ms = []
    for _ in range(HANDSHAKES_OF_MACHINES if "beside" in given else 0):
        begun_ns = time.time_ns()
        socket.create_connection((given["to"], int(given["beside"])), timeout=30).close()
        found_ms.append((time.time_ns() - begun_ns) / 1e6)
    return min(found_ms, default=None)


def arrival(train: socket.socket) -> tuple[bytes, int]:
    """The next packet, and the time at which the kernel received it."""
    packet, said, _, _ = train.recvmsg(2048, socket.CMSG_SPACE(TIMESPEC.size))
    seconds, nanoseconds = TIMESPEC.unpack(said[0][2])
    return packet, seconds * 1_000_000_000 + nanoseconds


def arrival_here(train: socket.socket) -> tuple[bytes, int]:
    """The next packet, and the time at which this program received it; the same in virtual time."""
    return train.recv(2048), time.time_ns()


def measure(given: dict[str, str]) -> None:
    """Time the handshakes, request a train, time its arrivals."""
    address = (given["to"], int(given["port"]))
    packets = int(given["packets"])
    handshakes_ms = []
    handshakes = HANDSHAKES_OF_MACHINES if "beside" in given else HANDSHAKES
    for _ in range(handshakes):
        begun_ns = time.time_ns()
        connection = socket.create_connection(address, timeout=30)
        handshakes_ms.append((time.time_ns() - begun_ns) / 1e6)
        if len(handshakes_ms) < handshakes:
            finish(connection)
    beside = beside_ms(given)
    arrivals_ns: list[int] = []
    numbers: list[int] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as train:
        train.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        taken, skipped = arrival_here, BURST_PACKETS
        if "beside" in given:
            # From the end of one piece to the end of the last. The first quarter of the train
            # exceeds the bursts of a machine's shaper.
            taken = arrival
            skipped = (packets // 4 // PIECE_PACKETS + 1) * PIECE_PACKETS - 1
            train.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            # The reader may not run for a while, so the buffer has room for the whole train.
            with contextlib.suppress(PermissionError):
                train.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, TRAIN_BYTES)
        train.bind(("", 0))
        # The timeout between two packets follows from the RTT.
        train.settimeout(max(0.5, 3 * min(handshakes_ms) / 1e3))
        connection.sendall(struct.pack("!H", train.getsockname()[1]))
        try:
            while len(arrivals_ns) < packets:
                packet, at_ns = taken(train)
                arrivals_ns.append(at_ns)
                numbers.append(struct.unpack_from("!I", packet)[0])
        except TimeoutError:
            pass
    finish(connection)
    behind = arrivals_ns[skipped:]
    span_ns = behind[-1] - behind[0] if len(behind) > 1 else 0
    # Packets that a slow reader lost have passed the shaper, too. On machines the buffer has room
    # for all of them, so a missing packet was dropped before the shaper.
    passed = 0
    if span_ns:
        passed = len(behind) - 1 if "beside" in given else numbers[-1] - numbers[skipped]
    rate_mbit = passed * FRAME_BYTES * 8e3 / span_ns if span_ns else None
    with open(given["out"], "w", encoding="ascii") as out:
        found = {
            "handshakes_ms": handshakes_ms,
            "rtt_ms": min(handshakes_ms),
            "rate_mbit": rate_mbit,
            "arrived": len(arrivals_ns),
            "sent": packets,
        }
        json.dump(found if beside is None else {**found, "beside_ms": beside}, out)
        out.write("\n")


def main(argv: list[str]) -> int:
    {"serve": serve, "measure": measure}[argv[0]](options(argv[1:]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
