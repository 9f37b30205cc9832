"""Explain a capture: what the time of its connections was spent on, and what to change.

FILE is a pcap or pcapng file from any machine, plain or compressed with gzip, xz or zstd, or
- for a pipe. First comes a verdict on the capture: whether it has both directions, where it was
taken, what it lacks. Then the connections that lost most time, each with a few sentences; numbers
in brackets are those of frames, as Wireshark counts them.

  labs explain FILE
  labs explain FILE --connection 10.0.0.1:40000-10.0.0.2:80
  labs explain FILE --out PAGE.html           the account as a page, with charts
  labs explain FILE --out FILE.pcapng         the capture, with the reasons as packet comments
  tcpdump -r FILE -w - port 80 | labs explain -

It needs the packages of the extra `capture`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labs.errors import BadInput

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.flows.account import FileAccount

ENDINGS = (".html", ".pcapng")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="the capture; - is standard input"
    )
    parser.add_argument(
        "--connection",
        metavar="N|A:P-B:P",
        help="explain this one only: its number in `labs capture connections`, or both its ends",
    )
    parser.add_argument(
        "--most",
        type=int,
        default=5,
        metavar="N",
        help="how many connections to print (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="X.html|X.pcapng",
        help="write a page, or the capture with the reasons as packet comments",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON Schema of --json, and end"
    )
    parser.add_argument("--dry-run", action="store_true", help="write nothing")


def main(args: argparse.Namespace) -> int:
    """Explain the capture. BadInput for a connection that it does not have, or another ending."""
    from labs.read.flows.account import SCHEMA

    if args.schema:
        print(json.dumps(SCHEMA, indent=2))
        return 0
    if args.file is None:
        raise BadInput("no capture is named. Name a FILE, or - for standard input")
    out: Path | None = args.out
    if out is not None and out.suffix not in ENDINGS:
        raise BadInput(f"--out {out}: the name must end in {' or '.join(ENDINGS)}")
    if args.most < 1:
        raise BadInput(f"--most {args.most} is out of range. Allowed: a number above 0")
    from labs.read.capture.source import kept_input
    from labs.read.flows.explain import explain, read_account

    with kept_input(args.file) as file:
        if out is None or args.dry_run:
            account = explain(file, connection=args.connection)
        else:
            segments, account = read_account(file, args.connection)
            _write(file, out, segments, account)
    if args.json:
        print(json.dumps(account.as_json()))
        return 0
    if not account.remarks.segments:
        print(f"{account.file}: no TCP. {'; '.join(account.remarks.lines)}")
        return 0
    for line in account.remarks.lines:
        print(f"labs: {line}", file=sys.stderr)
    print(account.describe(most=args.most))
    if out is not None:
        print(f"\n{'would write' if args.dry_run else 'wrote'} {out}")
    return 0


def _write(file: Path, out: Path, segments: DataFrame, account: FileAccount) -> None:
    from labs.drive.record.disk import write_whole

    if out.suffix == ".html":
        from labs.read.figures.account_page import page

        write_whole(out, page(segments, account).encode())
        return
    from labs.read.exports.pcapng import annotated, comments_of

    write_whole(out, annotated(file, comments_of(segments, account.accounts, account.errors)))
