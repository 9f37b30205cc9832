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

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from labs.cli.command import DRY_RUN, Answer, arg
from labs.errors import BadInput

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.flows.account import FileAccount

CONNECTION = arg(
    "--connection N|A:P-B:P",
    "this one only: its number in `labs capture connections`, or both its ends",
)
ARGUMENTS = (
    arg("[FILE]", "the capture; - is standard input", Path),
    CONNECTION,
    arg("--most N", "how many connections to print", int, 5, least=1),
    arg(
        "--out X.html|X.pcapng", "write a page, or the capture with the reasons as packet comments"
    ),
    arg("--schema", "print the JSON Schema of --json, and end"),
    DRY_RUN,
)


def main(args: Namespace) -> Answer:
    """Explain the capture. BadInput for a connection that it does not have."""
    from labs.read.flows.account import SCHEMA

    if args.schema:
        return Answer(SCHEMA, json.dumps(SCHEMA, indent=2))
    if args.file is None:
        raise BadInput("no capture is named. Name a FILE, or - for standard input")
    from labs.read.capture.source import kept_input
    from labs.read.flows.explain import explain, read_account

    with kept_input(args.file) as file:
        if args.out is None or args.dry_run:
            account = explain(file, connection=args.connection)
        else:
            segments, account = read_account(file, args.connection)
            _write(file, args.out, segments, account)
    remarks = account.remarks.lines
    if not account.remarks.segments:
        return Answer(account.as_json(), f"{account.file}: no TCP. {'; '.join(remarks)}")
    text = account.describe(most=args.most)
    if args.out is not None:
        text += f"\n\n{'would write' if args.dry_run else 'wrote'} {args.out}"
    return Answer(account.as_json(), text, remarks)


def _write(file: Path, out: Path, segments: DataFrame, account: FileAccount) -> None:
    from labs.drive.record.disk import write_whole

    if out.suffix == ".html":
        from labs.read.figures.account_page import page

        write_whole(out, page(segments, account).encode())
        return
    from labs.read.exports.pcapng import annotated, comments_of

    write_whole(out, annotated(file, comments_of(segments, account.accounts, account.errors)))
