"""Sample queues over rtnetlink: the statistics that `tc -s qdisc show` prints, as raw messages.

    queue_sampler.py --interval-ms N --parent 1:10 DEVICE FILE [DEVICE FILE]

Starting tc takes 20 ms inside a virtual kernel, an exchange over netlink 0.1 ms. FILE: records of
u64le at_ns (CLOCK_REALTIME), u32le length, then one message (struct tcmsg and attributes, without
its nlmsghdr) of the qdisc of that class. It sleeps between multiples of the interval and never
polls. SIGTERM: a last sample, exit 0. Exit code 4: the kernel refused a request.
Source: net/sched/sch_api.c, tc_get_qdisc, tc_fill_qdisc; include/uapi/linux/rtnetlink.h.
"""

import os
import signal
import socket
import struct
import sys
import time

NETLINK_ROUTE = 0
RTM_GETQDISC, NLMSG_ERROR = 38, 2
# NLM_F_REQUEST | NLM_F_ECHO: kernels up to 6.1 answer an echo only (rtnetlink_send).
FLAGS = 0x1 | 0x8
HEADER = struct.Struct("=IHHII")
TCMSG = struct.Struct("=BxxxiIII")
RECORD = struct.Struct("<QI")


def asked(device: str, parent: str) -> bytes:
    """The request for the qdisc of a class of a device."""
    major, minor = (int(part or "0", 16) for part in parent.split(":"))
    body = TCMSG.pack(socket.AF_UNSPEC, socket.if_nametoindex(device), 0, major << 16 | minor, 0)
    return HEADER.pack(HEADER.size + len(body), RTM_GETQDISC, FLAGS, 1, 0) + body


def answer(netlink: socket.socket, request: bytes) -> bytes:
    """The message that answers a request; SystemExit if the kernel refuses it."""
    netlink.send(request)
    said = netlink.recv(65536)
    length, kind, *_ = HEADER.unpack_from(said)
    if kind == NLMSG_ERROR:
        code = -struct.unpack_from("=i", said, HEADER.size)[0]
        print(f"queue_sampler: the kernel refused: {os.strerror(code)}", file=sys.stderr)
        raise SystemExit(4)
    return said[HEADER.size : length]


def main(argv: list[str]) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1))
    interval_ns, parent = int(argv[1]) * 1_000_000, argv[3]
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
    queues = [
        (asked(device, parent), os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
        for device, file in zip(argv[4::2], argv[5::2], strict=True)
    ]
    ending = False
    while not ending:
        at_ns = time.time_ns()
        for request, file in queues:
            message = answer(netlink, request)
            os.write(file, RECORD.pack(at_ns, len(message)) + message)
        left_ns = interval_ns - at_ns % interval_ns
        ending = signal.sigtimedwait((signal.SIGTERM,), left_ns / 1e9) is not None
    for request, file in queues:
        message = answer(netlink, request)
        os.write(file, RECORD.pack(time.time_ns(), len(message)) + message)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
