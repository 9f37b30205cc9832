"""Send small HTTP requests that are due at fixed moments; a program for the client.

    request.py --to ADDRESS --port 8080 --begin-ns T --end-ns T --every-ms MS --kept 0|1 --out FILE

Request i is due at begin + i * every, however late the answers before it are. Each has a connection
and a thread of its own; with --kept 1 all have one connection, and a request that is due while an
earlier one is unanswered waits for it. Writes one JSON object with the times (CLOCK_REALTIME) at
which each request was due, sent, and answered to its last byte; null where it was not in time.
"""

import json
import os
import socket
import sys
import threading
import time
from typing import Any

READ_BYTES = 65536
GRACE_S = 3.0


def options(argv: list[str]) -> dict[str, str]:
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


def exchange(connection: socket.socket, words: bytes, report: dict[str, Any]) -> None:
    """Send a request and read its response to the last byte."""
    report["sent_ns"] = time.time_ns()
    connection.sendall(words)
    begin, came, whole = b"", 0, None
    while whole is None or came < whole:
        piece = connection.recv(READ_BYTES)
        if not piece:
            return
        came += len(piece)
        if whole is None:
            begin += piece
            head, end, _ = begin.partition(b"\r\n\r\n")
            if end:
                length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                whole = len(head) + len(end) + int(length)
    report["done_ns"] = time.time_ns()
    report["bytes"] = came


def alone(address: tuple[str, int], words: bytes, report: dict[str, Any]) -> None:
    """A request on a connection of its own."""
    try:
        with socket.create_connection(address) as connection:
            exchange(connection, words, report)
    except OSError:
        pass  # the report says that there was no answer


def on_one(address: tuple[str, int], words: bytes, reports: list[dict[str, Any]]) -> None:
    """All requests on one connection, each when it is due or the one before it is answered."""
    try:
        with socket.create_connection(address) as connection:
            for report in reports:
                time.sleep(max(0, report["due_ns"] - time.time_ns()) / 1e9)
                exchange(connection, words, report)
    except OSError:
        pass


def main(argv: list[str]) -> int:
    given = options(argv)
    begin_ns, end_ns = int(given["begin-ns"]), int(given["end-ns"])
    every_ns = round(float(given["every-ms"]) * 1e6)
    reports: list[dict[str, Any]] = [
        {"due_ns": due_ns, "sent_ns": None, "done_ns": None, "bytes": 0}
        for due_ns in range(begin_ns, end_ns, every_ns)
    ]
    address = (given["to"], int(given["port"]))
    words = f"GET / HTTP/1.1\r\nHost: {given['to']}\r\n\r\n".encode()
    threading.stack_size(1 << 18)
    time.sleep(max(0, begin_ns - time.time_ns()) / 1e9)
    if given["kept"] == "1":
        threading.Thread(target=on_one, args=(address, words, reports), daemon=True).start()
    else:
        for report in reports:
            time.sleep(max(0, report["due_ns"] - time.time_ns()) / 1e9)
            threading.Thread(target=alone, args=(address, words, report), daemon=True).start()
    time.sleep(max(0, end_ns + GRACE_S * 1e9 - time.time_ns()) / 1e9)
    text = json.dumps({"requests": reports})  # in one step: threads that wait change their reports
    with open(given["out"], "w", encoding="ascii") as out:
        out.write(text + "\n")
    sys.stdout.flush()
    os._exit(0)  # threads may still wait for an answer


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
