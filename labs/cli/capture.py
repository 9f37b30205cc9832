"""Read a packet capture: its TCP segments as a table, its connections, its silences, a ladder.

FILE is pcap or pcapng, plain, gzip or zstd, of any machine. What has no row (other protocols,
damaged packets) is counted, and said on stderr. The first use compiles the reader, which takes
some seconds; where numba is not installed it is slower, and says the same.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from labs.cli import capture_shown
from labs.errors import BadInput

SHOWN = (
    "connection",
    "opener",
    "opener_port",
    "listener",
    "listener_port",
    "handshake_rtt_ms",
    "opener_bytes",
    "listener_bytes",
    "opener_segments",
    "listener_segments",
    "opener_retransmissions",
    "listener_retransmissions",
    "ended",
)
LISTED_BYTES = 3_600
"""What a connection takes while it is listed, as rows and as text, measured."""
KINDS = (".parquet", ".csv")


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    table = verbs.add_parser(
        "table",
        help="write the TCP segments as a table, a row each",
        description="Write the TCP segments of a capture as a table, a row each.\n\n"
        "  labs capture table FILE --out segments.parquet\n"
        "  labs capture table FILE.pcapng.gz --out segments.csv\n\n"
        "The columns are those of labs.capture.read, whose help tells their units.",
    )
    table.add_argument("file", metavar="FILE", help="a pcap or pcapng file")
    table.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="X.parquet|X.csv",
        help="the file to write; its ending says which kind",
    )
    table.add_argument("--dry-run", action="store_true", help="read, and say what would be written")
    ends = verbs.add_parser(
        "connections",
        help="list the connections",
        description="List the connections of a capture: ends, handshake, bytes, how each ended.\n"
        "With --json every column of labs.capture.connections.",
    )
    ends.add_argument("file", metavar="FILE", help="a pcap or pcapng file")
    for verb, answer in ((table, main_table), (ends, main_connections)):
        verb.add_argument("--json", action="store_true", help="print one JSON object")
        verb.set_defaults(answer=answer)
    capture_shown.add(verbs)


def main(args: argparse.Namespace) -> int:
    answer: int = args.answer(args)
    return answer


def main_table(args: argparse.Namespace) -> int:
    """Read, write, say how much. Raises BadInput for another ending than these two."""
    out: Path = args.out
    if out.suffix not in KINDS:
        raise BadInput(f"--out {out}: write a {' or a '.join(KINDS)} file, by its ending")
    from labs.read.capture.counts import remarks
    from labs.read.capture.reader import read_columns

    columns, reader = read_columns(args.file)
    found = remarks(reader.counts)
    if not args.dry_run:
        from labs.read.capture.table_file import write

        write(columns, out)
    said = {
        "file": args.file,
        "out": str(out),
        "written": not args.dry_run,
        "rows": columns.rows,
        "connections": len(reader.connections),
        **found.as_json(),
    }
    if args.json:
        print(json.dumps(said))
    else:
        capture_shown.say(found)
        would = "would write" if args.dry_run else "wrote"
        print(
            f"{would} {columns.rows:,} segments of {len(reader.connections):,} connections to {out}"
        )
    return 0


def main_connections(args: argparse.Namespace) -> int:
    """Read, list."""
    from labs.cli.tables import table
    from labs.read.capture import connection_table as ends
    from labs.read.capture.counts import remarks
    from labs.read.capture.reader import whole
    from labs.read.capture.row_limit import IN_PARTS

    reader = whole(args.file)
    count = len(reader.connections)
    reader.must_fit(count * LISTED_BYTES, f"{count:,} connections as a list", IN_PARTS)
    found = remarks(reader.counts)
    rows = ends.rows(reader.connections)
    if args.json:
        print(json.dumps({"file": args.file, "connections": rows, **found.as_json()}))
        return 0
    capture_shown.say(found)
    for row in rows:
        ns = row["handshake_rtt_ns"]
        row["handshake_rtt_ms"] = None if ns is None else ns / 1e6
    print(table(rows, SHOWN) if rows else f"{args.file}: {capture_shown.without_tcp(found)}")
    return 0
