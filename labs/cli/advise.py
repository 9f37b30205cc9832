"""Advise on the buffers with which one flow fills a path, and predict a flow with other buffers.

The advice is computed from the rules of the kernel; both ends run the same version. It names the
maxima for tcp_rmem and tcp_wmem, or the sizes that a program requests; what the default buffers
reach, and why; and the memory that connections may take.

--sndbuf and --rcvbuf take the largest size that a buffer may have, such as 4194304, 512K or 4M. It
is the maximum in tcp_wmem or tcp_rmem, or the size that getsockopt returns.
"""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING

from labs.drive.kernel.versions import DEFAULT
from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import GIB, KIB, MIB
from labs.errors import BadInput

if TYPE_CHECKING:
    from labs.read.theory.advice import Advice, Reached

UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMG]?)", re.ASCII)
MOST_CONNECTIONS = 10_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rate-mbit", type=float, required=True, metavar="R", help="rate of the link, Mbit/s"
    )
    parser.add_argument(
        "--rtt-ms", type=float, required=True, metavar="T", help="RTT without load, ms"
    )
    parser.add_argument(
        "--kernel",
        default=DEFAULT,
        metavar="K",
        help="version of Linux at both ends (default: %(default)s)",
    )
    parser.add_argument(
        "--mss",
        type=int,
        default=MSS_BYTES,
        metavar="M",
        help="payload of a full segment, bytes (default: %(default)s)",
    )
    parser.add_argument(
        "--loss-pct",
        type=float,
        default=0.0,
        metavar="P",
        help="packet loss of the path (default: none)",
    )
    parser.add_argument(
        "--connections",
        type=int,
        default=1,
        metavar="N",
        help="number of such connections that share the memory (default: %(default)s)",
    )
    parser.add_argument(
        "--predict", action="store_true", help="predict the goodput with --sndbuf and --rcvbuf"
    )
    parser.add_argument(
        "--sndbuf", metavar="SIZE", help="send buffer (default: the kernel's largest)"
    )
    parser.add_argument(
        "--rcvbuf", metavar="SIZE", help="receive buffer (default: the kernel's largest)"
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure in virtual time: the default and the smallest advised buffers, or with "
        "--predict the given ones",
    )
    parser.add_argument(
        "--into", metavar="DIR", help="folder for these runs (default: runs/advise)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(args: argparse.Namespace) -> int:
    from labs.read.display.advice import as_json, as_text, prediction_text
    from labs.read.display.format import terminal_table
    from labs.read.theory.advice import advise, checked_path, reached

    checked_path(args.rate_mbit, args.rtt_ms, args.kernel, args.mss, args.loss_pct)
    if not 1 <= args.connections <= MOST_CONNECTIONS:
        raise BadInput(
            f"--connections {args.connections} is out of range; allowed: 1 to {MOST_CONNECTIONS:,}"
        )
    sndbuf, rcvbuf = _size("--sndbuf", args.sndbuf), _size("--rcvbuf", args.rcvbuf)
    if not args.predict and (sndbuf or rcvbuf):
        raise BadInput("--sndbuf and --rcvbuf are sizes for a prediction. Add --predict")
    if args.loss_pct and (args.predict or args.measure):
        raise BadInput(
            "--predict and --measure are for a path without loss. Leave out --loss-pct, or measure "
            "with loss: labs run buffers --shaped-at router --loss-pct P"
        )
    advice = advise(args.rate_mbit, args.rtt_ms, args.kernel, mss_bytes=args.mss)
    given = reached(advice, sndbuf_bytes=sndbuf, rcvbuf_bytes=rcvbuf) if args.predict else None
    measured = _measured(args, advice, given) if args.measure else []
    if args.json:
        said = as_json(advice, args.connections, given, args.loss_pct)
        print(json.dumps({**said, "measured": measured}))
        return 0
    told = as_text(advice, args.connections, args.loss_pct)
    print(prediction_text(advice, given) if given else told)
    if measured:
        print(f"\nmeasured on the virtual kernel:\n{terminal_table(measured, tuple(measured[0]))}")
    return 0


def _measured(
    args: argparse.Namespace, advice: Advice, given: Reached | None
) -> list[dict[str, object]]:
    """Predicted and measured goodput, one row per set of buffers."""
    from labs.read.display.advice import sizes_in_words
    from labs.read.theory.advice import reached
    from labs.studies.advice import INTO, at_least, measure

    wanted = {"given": given} if given else {"default": reached(advice), "least": at_least(advice)}
    return [
        {
            "buffers": one.name,
            "sizes": sizes_in_words(one.predicted),
            "predicted_mib_s": one.predicted.goodput_bytes_s / MIB,
            "measured_mib_s": one.goodput_bytes_s / MIB,
            "of_the_link_pct": 100 * one.goodput_bytes_s / advice.line_bytes_s,
            "run": one.run.name,
        }
        for one in measure(advice, wanted, into=args.into or INTO)
    ]


def _size(flag: str, text: str | None) -> int | None:
    """A size in bytes; BadInput for other text, and for a size that no kernel grants."""
    if text is None:
        return None
    from labs.read.theory.advice import LARGEST_BYTES
    from labs.read.theory.windows import SMALLEST_BYTES

    found = _SIZE.fullmatch(text)
    if found is None:
        raise BadInput(f'{flag} "{text}" is not a size; allowed: bytes, or such as 512K, 4M')
    size = int(float(found[1]) * UNITS[found[2]])
    least = SMALLEST_BYTES["send" if flag == "--sndbuf" else "receive"]
    if not least <= size < LARGEST_BYTES:
        raise BadInput(
            f"{flag} {text} is out of range; allowed: {least} bytes, the smallest that a kernel "
            "grants, to 2G"
        )
    return size
