"""The flags of the commands that perform runs: how many at once, and how their kernels boot."""

from __future__ import annotations

import argparse

from labs.drive.kernel.boot import EITHER
from labs.errors import BadInput
from labs.launch.wanted import AUTO, Wanted


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="concurrent runs (default: LABS_JOBS, or one per CPU)"
    )
    parser.add_argument(
        "--boot",
        choices=(AUTO, *EITHER),
        metavar="MODE",
        help="how virtual kernels intercept system calls. seccomp is faster and needs no ptrace; "
        "with ptrace, a lab cannot access this machine; auto (the default, unless LABS_BOOT is "
        "set) uses seccomp where it works, and ptrace for labs in files of your own. Each "
        "produces the same bytes",
    )


def wanted(args: argparse.Namespace, *, keep_going: bool = False) -> Wanted:
    """How the arguments want the runs; BadInput for an impossible number of them."""
    if args.jobs is not None and args.jobs < 1:
        raise BadInput(f"--jobs {args.jobs} is out of range; allowed: 1 or more")
    given = {} if args.boot is None else {"boot": args.boot}
    return Wanted(getattr(args, "fresh", False), args.jobs, keep_going=keep_going, **given)
