"""Fetch a file over HTTP and throw it away inside the kernel; a program for the client.

    fetch.py --to ADDRESS --port 80 --path /bigfile --read-bytes 65536 --limit-s 90 --out FILE

Each read asks for --read-bytes and waits until they are there (MSG_WAITALL); MSG_TRUNC drops them
without copying. Writes one JSON object: times (CLOCK_REALTIME), bytes of the body, reads, a
timeline with an entry at most every 100 ms, and how it ended: "complete" or "limit".
"""

import json
import signal
import socket
import sys
import time

STEP_NS = 100_000_000


class LimitReached(Exception):
    """The time given with --limit-s is over."""


def options(argv: list[str]) -> dict[str, str]:
    """The flags as a dict; argparse would double the start-up time inside a virtual kernel."""
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


def on_alarm(number: int, frame: object) -> None:
    raise LimitReached


def body_start(connection: socket.socket) -> tuple[int, int, int]:
    """Read the reply's head: (status, the announced length, bytes of the body that came along)."""
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(4096)
        if not piece:
            raise SystemExit("the server closed before the head of its reply was complete")
        head += piece
    lines, _, rest = head.partition(b"\r\n\r\n")
    status = int(lines.split(b" ", 2)[1])
    fields = (line.split(b":", 1) for line in lines.split(b"\r\n")[1:])
    lengths = [int(value) for name, value in fields if name.lower() == b"content-length"]
    if status != 200 or not lengths:
        raise SystemExit(f"the server answered with status {status}, lengths {lengths}")
    return status, lengths[0], len(rest)


def main(argv: list[str]) -> int:
    given = options(argv)
    read_bytes = int(given["read-bytes"])
    signal.signal(signal.SIGALRM, on_alarm)
    now = time.time_ns
    flags = socket.MSG_TRUNC | socket.MSG_WAITALL
    scrap = bytearray(read_bytes)
    timeline = []
    reads = 0
    before_ns = now()
    connection = socket.create_connection((given["to"], int(given["port"])))
    connect_ns = now()
    request = f"GET {given['path']} HTTP/1.1\r\nHost: {given['to']}\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode())
    signal.setitimer(signal.ITIMER_REAL, float(given["limit-s"]))
    ended = "limit"
    status = length = total = 0
    first_byte_ns = connect_ns
    try:
        status, length, total = body_start(connection)
        first_byte_ns = now()
        due_ns = first_byte_ns
        while total < length:
            # Never ask for more than is to come: with MSG_WAITALL the last read would hang.
            got = connection.recv_into(scrap, min(read_bytes, length - total), flags)
            if not got:
                break
            reads += 1
            total += got
            at_ns = now()
            if at_ns >= due_ns:
                timeline.append((at_ns, total))
                due_ns = at_ns + STEP_NS
        ended = "complete" if total == length else "cut short"
    except LimitReached:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    end_ns = now()
    timeline.append((end_ns, total))
    connection.close()
    with open(given["out"], "w", encoding="ascii") as out:
        json.dump({"before_ns": before_ns, "connect_ns": connect_ns, "request_ns": connect_ns,
                   "first_byte_ns": first_byte_ns, "end_ns": end_ns, "bytes": total,
                   "length": length, "status": status, "ended": ended, "reads": reads,
                   "timeline": timeline}, out)
        out.write("\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
