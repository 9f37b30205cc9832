"""Advise on the buffers with which one flow fills a path, and predict a flow with other buffers.

The advice is computed from the rules of the kernel; both ends run the same version. It names the
maxima for tcp_rmem and tcp_wmem, or the sizes that a program requests; what the default buffers
reach, and why; and the memory that connections may take.

With --loss-pct it names the congestion control that fits, and gives the sizes for it or for
--control; --measure then repeats each run with several seeds, and shows the median and the range.

--sndbuf and --rcvbuf take the largest size that a buffer may have, such as 4194304, 512K or 4M. It
is the maximum in tcp_wmem or tcp_rmem, or the size that getsockopt returns.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from labs.drive.kernel.versions import DEFAULT
from labs.errors import BadInput
from labs.guest.testbed.link import MSS_BYTES
from labs.guest.units import GIB, KIB, MIB

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
        dest="mss_bytes",
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
        help="random packet loss of the path (default: none)",
    )
    parser.add_argument(
        "--control",
        metavar="C",
        help="congestion control of the sender: cubic, reno or bbr; with --measure any that the "
        "kernel has (default: the one that fits the loss)",
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
    from labs.read.display.advice import as_json, describe, describe_prediction
    from labs.read.display.format import terminal_table
    from labs.read.theory.advice import Path, advise, reached

    path = Path(**{field.name: getattr(args, field.name) for field in fields(Path)}).checked()
    if not 1 <= args.connections <= MOST_CONNECTIONS:
        raise BadInput(
            f"--connections {args.connections} is out of range; allowed: 1 to {MOST_CONNECTIONS:,}"
        )
    sndbuf, rcvbuf = _size("--sndbuf", args.sndbuf), _size("--rcvbuf", args.rcvbuf)
    if not args.predict and (sndbuf or rcvbuf):
        raise BadInput("--sndbuf and --rcvbuf are sizes for a prediction. Add --predict")
    advice = advise(**vars(path), control=_control(args))
    given = reached(advice, sndbuf_bytes=sndbuf, rcvbuf_bytes=rcvbuf) if args.predict else None
    if given and given.cannot_say and not args.measure:
        raise BadInput(f"nothing is predicted: {given.cannot_say}. Add --measure")
    if args.measure and advice.control is None:
        raise BadInput(
            "no congestion control is advised for this loss, so none is measured. Add --control"
        )
    measured = _measured(args, advice, given) if args.measure else []
    if args.json:
        recommended = as_json(advice, args.connections, given)
        print(json.dumps({**recommended, "measured": measured}))
        return 0
    print(describe_prediction(given) if given else describe(reached(advice), args.connections))
    if measured:
        print(f"\nmeasured on the virtual kernel:\n{terminal_table(measured, tuple(measured[0]))}")
    return 0


def _control(args: argparse.Namespace) -> str | None:
    """The congestion control that was named, if it is used; None without one."""
    from labs.drive.kernel.options import congestion_controls
    from labs.drive.parameters.declare import nearest
    from labs.read.theory.advice import SIZED

    built = tuple(control for control in congestion_controls() if control != "dctcp")  # needs ECN
    allowed = built if args.measure else SIZED
    if args.control is None or args.control in allowed:
        return None if args.control is None else str(args.control)
    if args.control in built:
        raise BadInput(
            f"--control {args.control} would not be used: no sizes are known for it. "
            f"Allowed: {', '.join(SIZED)}; or measure it: --measure"
        )
    near = nearest(args.control, allowed)
    hint = f'; did you mean "{near}"?' if near else "."
    raise BadInput(f'unknown --control "{args.control}"{hint} Allowed: {", ".join(allowed)}')


def _measured(
    args: argparse.Namespace, advice: Advice, given: Reached | None
) -> list[dict[str, Any]]:
    """Predicted and measured goodput, one row per set of buffers."""
    from labs.read.theory.advice import at_least, reached
    from labs.studies.advice import INTO, measure

    wanted = {"given": given} if given else {"default": reached(advice)}
    if not given and advice.holds_bdp is not None:
        wanted["least"] = at_least(advice)
    return measure(wanted, into=args.into or INTO)


def _size(flag: str, text: str | None) -> int | None:
    """A size in bytes; BadInput for other text, and for a size that no kernel grants."""
    if text is None:
        return None
    from labs.read.theory.advice import LARGEST_BYTES
    from labs.read.theory.windows import SMALLEST_BYTES

    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadInput(f'{flag} "{text}" is not a size; allowed: bytes, or such as 512K, 4M')
    size = int(float(match[1]) * UNITS[match[2]])
    least = SMALLEST_BYTES["send" if flag == "--sndbuf" else "receive"]
    if not least <= size < LARGEST_BYTES:
        raise BadInput(
            f"{flag} {text} is out of range; allowed: {least} bytes, the smallest that a kernel "
            "grants, to 2G"
        )
    return size
