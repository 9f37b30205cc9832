"""Send HTTP requests one after another on one connection; a program for the client.

    ask.py --to ADDRESS --port 80 [--path /] --requests 20 --quickack never|once|each --out FILE

`once` sets TCP_QUICKACK after connecting, `each` also before every read. Writes one JSON object:
the setting, and the duration of each response, from the request to its last byte.
"""

import json
import socket
import sys
import time


def options(argv: list[str]) -> dict[str, str]:
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


def length_of(head: bytes) -> int:
    """The Content-Length in the header of a response."""
    fields = (line.split(b":", 1) for line in head.split(b"\r\n")[1:])
    lengths = [int(value) for name, value in fields if name.lower() == b"content-length"]
    if not head.startswith(b"HTTP/1.1 200 ") or not lengths:
        raise SystemExit(f"unexpected response: {head[:60]!r}")
    return lengths[0]


def read_response(connection: socket.socket, each: bool) -> None:
    """Read one response to its last byte."""
    begin, came, whole = b"", 0, None
    while whole is None or came < whole:
        if each:
            quick(connection)
        piece = connection.recv(65536)
        if not piece:
            raise SystemExit(f"the server closed the connection after {came} bytes of a response")
        came += len(piece)
        if whole is None:
            begin += piece
            head, end, _ = begin.partition(b"\r\n\r\n")
            if end:
                whole = len(head) + len(end) + length_of(head)


def quick(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def main(argv: list[str]) -> int:
    given = options(argv)
    requested = given["quickack"]
    connection = socket.create_connection((given["to"], int(given["port"])), timeout=30)
    # One write per request, so Nagle's algorithm delays nothing on this side.
    path = given.get("path", "/")
    request = f"GET {path} HTTP/1.1\r\nHost: {given['to']}\r\n\r\n".encode()
    if requested == "once":
        quick(connection)
    times_ms = []
    for _ in range(int(given["requests"])):
        begun_ns = time.time_ns()
        connection.sendall(request)
        read_response(connection, requested == "each")
        times_ms.append((time.time_ns() - begun_ns) / 1e6)
    connection.close()
    with open(given["out"], "w", encoding="ascii") as out:
        json.dump({"quickack": requested, "times_ms": times_ms}, out)
        out.write("\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
