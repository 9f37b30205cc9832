"""Send HTTP responses in one write or in several; a program for the server.

    respond.py --listen ADDRESS --port 80 --writes WAY --body-bytes 612 [--pieces 10] [--nodelay 1]
        [--every-ms 1]

WAY is how header and body are written: `two` writes, `one`, two under TCP_CORK (`cork`), two of
which the first has MSG_MORE (`more`), or `pieces`: header and body in that many writes of equal
size. `--every-ms` is the interval between the writes. The header always has 160 bytes. One thread
serves all connections; between requests it sleeps in epoll. Runs until it is killed.
"""

import contextlib
import selectors
import socket
import sys
import time
from itertools import pairwise

HEAD_BYTES = 160


def options(argv: list[str]) -> dict[str, str]:
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


def head(body_bytes: int) -> bytes:
    """The header of the response, filled up to its length."""
    said = (
        f"HTTP/1.1 200 OK\r\nServer: labs\r\nContent-Type: text/plain\r\n"
        f"Connection: keep-alive\r\nContent-Length: {body_bytes}\r\nFill: "
    )
    return said.encode().ljust(HEAD_BYTES - 4, b".") + b"\r\n\r\n"


def respond(peer: socket.socket, way: str, parts: list[bytes], every_s: float) -> None:
    """Write one response, with pauses of `every_s` between its parts."""
    if way == "cork":
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    for place, part in enumerate(parts, start=1):
        more = way == "more" and place < len(parts)
        if every_s and place > 1:
            time.sleep(every_s)
        peer.sendall(part, socket.MSG_MORE if more else 0)
    if way == "cork":
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


def main(argv: list[str]) -> int:
    given = options(argv)
    way, size = given["writes"], int(given["body-bytes"])
    every_s = float(given.get("every-ms", "0")) / 1e3
    begin, body = head(size), b"x" * size
    parts = [begin, body]
    if way == "one":
        parts = [begin + body]
    elif way == "pieces":
        whole, pieces = begin + body, int(given["pieces"])
        edges = [len(whole) * place // pieces for place in range(pieces + 1)]
        parts = [whole[one:other] for one, other in pairwise(edges)]
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((given["listen"], int(given["port"])))
    listener.listen(512)
    asked: dict[socket.socket, bytes] = {}
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            peer = key.fileobj
            assert isinstance(peer, socket.socket)
            if peer is listener:
                peer, _ = listener.accept()
                if given.get("nodelay") == "1":
                    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ready.register(peer, selectors.EVENT_READ)
                asked[peer] = b""
                continue
            came = b""
            with contextlib.suppress(ConnectionError):  # the client may close at any time
                came = peer.recv(65536)
                asked[peer] += came
                while b"\r\n\r\n" in asked[peer]:
                    asked[peer] = asked[peer].partition(b"\r\n\r\n")[2]
                    respond(peer, way, parts, every_s)
            if not came:
                ready.unregister(peer)
                del asked[peer]
                peer.close()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
