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

import re
from argparse import Namespace
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from labs.cli.command import Answer, arg
from labs.drive.kernel.versions import DEFAULT
from labs.errors import BadInput
from labs.guest.testbed.link import MSS_BYTES
from labs.guest.units import GIB, KIB, MIB

if TYPE_CHECKING:
    from labs.read.theory.advice import Advice, Reached

UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMG]?)", re.ASCII)
ARGUMENTS = (
    arg("--rate-mbit R", "rate of the link, Mbit/s", float, required=True),
    arg("--rtt-ms T", "RTT without load, ms", float, required=True),
    arg("--kernel K", "version of Linux at both ends", default=DEFAULT),
    arg("--mss M", "payload of a full segment, bytes", int, MSS_BYTES, dest="mss_bytes"),
    arg("--loss-pct P", "random packet loss of the path", float, 0.0),
    arg(
        "--control C",
        "congestion control of the sender: cubic, reno or bbr; with --measure any that the "
        "kernel has (default: the one that fits the loss)",
    ),
    arg(
        "--connections N",
        "number of such connections that share the memory",
        int,
        1,
        least=1,
        most=10_000_000,
    ),
    arg("--predict", "predict the goodput with --sndbuf and --rcvbuf"),
    arg("--sndbuf SIZE", "send buffer (default: the kernel's largest)"),
    arg("--rcvbuf SIZE", "receive buffer (default: the kernel's largest)"),
    arg(
        "--measure",
        "measure in virtual time: the default and the smallest advised buffers, or with "
        "--predict the given ones",
    ),
    arg("--into DIR", "folder for these runs (default: runs/advise)"),
)


def main(args: Namespace) -> Answer:
    """Advise or predict, and measure if that is requested. BadInput for an impossible path."""
    from labs.read.display.advice import as_json, describe, describe_prediction
    from labs.read.display.format import terminal_table
    from labs.read.theory.advice import Path, advise, reached

    path = Path(**{field.name: getattr(args, field.name) for field in fields(Path)}).checked()
    sndbuf, rcvbuf = _size("--sndbuf", args.sndbuf), _size("--rcvbuf", args.rcvbuf)
    if not args.predict and (sndbuf or rcvbuf):
        raise BadInput("--sndbuf and --rcvbuf are sizes for a prediction. Add --predict")
    advice = advise(**vars(path), control=_control(args))
    given = reached(advice, sndbuf_bytes=sndbuf, rcvbuf_bytes=rcvbuf) if args.predict else None
    if given and given.cannot_say and not args.measure:
        raise BadInput(f"nothing is predicted: {given.cannot_say}. Add --measure")
    measured = _measured(args, advice, given) if args.measure else []
    text = describe_prediction(given) if given else describe(reached(advice), args.connections)
    if measured:
        table = terminal_table(measured, tuple(measured[0]))
        text += f"\n\nmeasured on the virtual kernel:\n{table}"
    return Answer({**as_json(advice, args.connections, given), "measured": measured}, text)


def _control(args: Namespace) -> str | None:
    """The congestion control that was named, if it is used; None without one."""
    from labs.drive.kernel.options import congestion_controls
    from labs.drive.parameters.declare import unknown
    from labs.read.theory.advice import SIZED

    built = [control for control in congestion_controls() if control != "dctcp"]  # needs ECN
    allowed = built if args.measure else SIZED
    if args.control is None or args.control in allowed:
        return None if args.control is None else str(args.control)
    if args.control in built:
        raise BadInput(
            f"--control {args.control} would not be used: no sizes are known for it. "
            f"Allowed: {', '.join(SIZED)}; or measure it: --measure"
        )
    raise BadInput(unknown(args.control, allowed, what="value of --control"))


def _measured(args: Namespace, advice: Advice, given: Reached | None) -> list[dict[str, Any]]:
    """Predicted and measured goodput, one row per set of buffers."""
    from labs.read.theory.advice import at_least, reached
    from labs.studies.advice import INTO, measure

    if advice.control is None:
        raise BadInput(
            "no congestion control is advised for this loss, so none is measured. Add --control"
        )
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
