"""Request socket buffers of many sizes and record the sizes that are granted.

    setsockopt_sizes.py --sizes 1000,65536,... --out FILE

Writes one JSON list of {"socket", "requested_bytes", "granted_bytes"}: SO_RCVBUF and SO_SNDBUF of
new TCP sockets, as returned by getsockopt.
"""

import json
import socket
import sys

BUFFERS = {"receive": socket.SO_RCVBUF, "send": socket.SO_SNDBUF}


def options(argv: list[str]) -> dict[str, str]:
    return {name.lstrip("-"): value for name, value in zip(argv[::2], argv[1::2], strict=True)}


def main(argv: list[str]) -> int:
    given = options(argv)
    found = []
    for size in [int(word) for word in given["sizes"].split(",")]:
        for name, option in BUFFERS.items():
            with socket.socket() as fresh:
                fresh.setsockopt(socket.SOL_SOCKET, option, size)
                found.append(
                    {
                        "socket": name,
                        "requested_bytes": size,
                        "granted_bytes": fresh.getsockopt(socket.SOL_SOCKET, option),
                    }
                )
    with open(given["out"], "w", encoding="ascii") as out:
        json.dump(found, out)
        out.write("\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
