"""Fetch a file over HTTP and discard it inside the kernel; a program for the client.

    fetch.py --to ADDRESS --port 80 --path /bigfile --read-bytes 65536 --limit-s 90 --out FILE
             [--rcvbuf BYTES] [--pause-ms MS]

Each read requests --read-bytes and waits until all have arrived (MSG_WAITALL); MSG_TRUNC discards
them without copying. Writes one JSON object: times (CLOCK_REALTIME), bytes of the body, reads, a
timeline with an entry at most every 100 ms, and the end: "complete" or "limit". With --pause-ms the
program reads for 500 ms, then reads nothing for that long, and so on.

Inside a virtual kernel reading the clock is a system call, as expensive as the read itself.
Therefore the clock is read about eight times between two entries, not after every read.
"""

import json
import signal
import socket
import sys
import time

STEP_NS = 100_000_000
LOOKS = 8
READ_NS = 500_000_000
"""How long a reader that pauses reads in between."""


def options(argv: list[str]) -> dict[str, str]:
    """The flags as a dict; argparse would double the start-up time in a virtual kernel."""
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


def body_start(connection: socket.socket) -> tuple[int, int, int]:
    """Read the header of the response: (status, length of the body, bytes of it already read)."""
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(4096)
        if not piece:
            raise SystemExit("the server closed the connection within the header of the response")
        head += piece
    lines, _, rest = head.partition(b"\r\n\r\n")
    status = int(lines.split(b" ", 2)[1])
    fields = (line.split(b":", 1) for line in lines.split(b"\r\n")[1:])
    lengths = [int(value) for name, value in fields if name.lower() == b"content-length"]
    if status != 200 or not lengths:
        raise SystemExit(f"unexpected response: status {status}, Content-Length {lengths}")
    return status, lengths[0], len(rest)


def opened(given: dict[str, str]) -> socket.socket:
    """A socket with the requested receive buffer, not connected yet."""
    connection = socket.socket()
    if "rcvbuf" in given:
        # Before connecting, because the SYN determines the window scale.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(given["rcvbuf"]))
    return connection


def read_body(
    connection: socket.socket,
    read_bytes: int,
    total: int,
    length: int,
    due_ns: int,
    pause_ms: int = 0,
) -> tuple[int, int, list[tuple[int, int]]]:
    """Read from `total` bytes of the body up to `length`: (bytes, reads, timeline).

    `due_ns` is the time of the timeline's first entry, and of the first pause.
    """
    pause_ns = due_ns if pause_ms else None
    flags = socket.MSG_TRUNC | socket.MSG_WAITALL
    scrap = bytearray(read_bytes)
    timeline = []
    reads = read_at_entry = between = next_look = 0
    while total < length:
        # Never request more than what remains: with MSG_WAITALL the last read would hang.
        got = connection.recv_into(scrap, min(read_bytes, length - total), flags)
        if not got:
            break
        reads += 1
        total += got
        if reads < next_look:
            continue
        at_ns = time.time_ns()
        if pause_ns is not None and at_ns >= pause_ns:
            time.sleep(pause_ms / 1e3)
            at_ns = time.time_ns()
            pause_ns = at_ns + READ_NS
        if at_ns >= due_ns:
            timeline.append((at_ns, total))
            due_ns = at_ns + STEP_NS
            between, read_at_entry = reads - read_at_entry, reads
        next_look = reads + between // LOOKS
    return total, reads, timeline


def main(argv: list[str]) -> int:
    given = options(argv)
    now = time.time_ns
    over = False
    connection = opened(given)
    rcvbuf_bytes = connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    before_ns = now()
    connection.connect((given["to"], int(given["port"])))
    connect_ns = now()

    def on_alarm(number: int, frame: object) -> None:
        """End reading. (An exception could lose the result of a read that is returning.)"""
        nonlocal over
        over = True
        connection.shutdown(socket.SHUT_RD)

    signal.signal(signal.SIGALRM, on_alarm)
    request = f"GET {given['path']} HTTP/1.1\r\nHost: {given['to']}\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode())
    signal.setitimer(signal.ITIMER_REAL, float(given["limit-s"]))
    status, length, total = body_start(connection)
    first_byte_ns = now()
    total, reads, timeline = read_body(
        connection,
        int(given["read-bytes"]),
        total,
        length,
        first_byte_ns,
        int(given.get("pause-ms", 0)),
    )
    signal.setitimer(signal.ITIMER_REAL, 0)
    end_ns = now()
    timeline.append((end_ns, total))
    connection.close()
    if total < length and not over:
        raise SystemExit(f"the server closed the connection after {total} of {length} bytes")
    said = {
        "before_ns": before_ns,
        "connect_ns": connect_ns,
        "request_ns": connect_ns,
        "first_byte_ns": first_byte_ns,
        "end_ns": end_ns,
        "bytes": total,
        "length": length,
        "status": status,
        "rcvbuf_bytes": rcvbuf_bytes,
        "ended": "complete" if total == length else "limit",
        "reads": reads,
        "timeline": timeline,
    }
    with open(given["out"], "w", encoding="ascii") as out:
        out.write(json.dumps(said) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
