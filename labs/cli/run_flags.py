"""The flags of the commands that perform runs: how many at once, and how their kernels boot."""

from __future__ import annotations

import argparse
import os

from labs.drive.kernel.boot import AUTO, EITHER
from labs.errors import BadInput


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


def take(args: argparse.Namespace) -> None:
    """Check the number of concurrent runs, and set the mode for this process and its workers."""
    if args.jobs is not None and args.jobs < 1:
        raise BadInput(f"--jobs {args.jobs} is out of range; allowed: 1 or more")
    if args.boot is not None:
        os.environ["LABS_BOOT"] = args.boot
