"""Read a packet capture: its TCP segments as a table, its connections, its stalls, diagrams.

FILE is a pcap or pcapng file from any machine, plain or compressed with gzip or zstd. Packets
without a row in the table (other protocols, damaged packets) are counted and reported on stderr.
Without the compiled library (`make ready`, or a wheel for this system) Python reads, more than 200
times more slowly. Parquet needs the extra `capture`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from math import inf, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.errors import BadInput
from labs.read.display.format import terminal_table

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from labs.read.capture import Remarks
    from labs.read.capture.segment_table import Table
    from labs.read.flows.waits import Stalls


SHOWN = (
    "connection",
    "client",
    "client_port",
    "server",
    "server_port",
    "handshake_rtt_ms",
    "client_bytes",
    "server_bytes",
    "client_segments",
    "server_segments",
    "client_retransmissions",
    "server_retransmissions",
    "ended",
)
LISTED_BYTES = 3_600
"""Memory that listing a connection takes, as rows and as text; measured."""
KINDS = (".parquet", ".csv")
UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
FRAMES = re.compile(r"(\d+)-(\d+)")
PLACE = re.compile(r"(\d+)|(\d+(?:\.\d+)?)(s|ms|us)")
COLUMNS = ("reason", "stalls", "longest_ms", "together_ms")
ENDS = ("client", "server")  # direction 0 and 1
LONGEST = 10
GRAPH_S = 3.0
"""What a graph shows by default: the ACKs and the window of a longer time are one line."""
WIDTH = 100
LONGEST_COLUMNS = (
    "connection",
    "at_s",
    "gap_ms",
    "rtt_ms",
    "reason",
    "waiting",
    "waited_for",
    "frames",
    "client",
    "server",
)


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    verb = verbs.add_parser(
        "table",
        help="write a table with one row per TCP segment",
        description="Write a table with one row per TCP segment of a capture.\n\n"
        "  labs capture table FILE --out segments.parquet\n"
        "  labs capture table FILE.pcapng.gz --out segments.csv\n\n"
        "The columns are those of labs.capture.read; its help describes them with their units.",
    )
    verb.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="X.parquet|X.csv",
        help="the file to write; its ending selects the format",
    )
    verb.add_argument("--dry-run", action="store_true", help="print what would be written")
    _add_common(verb, main_table)
    verb = verbs.add_parser(
        "connections",
        help="list the connections",
        description="List the connections of a capture: endpoints, handshake RTT, bytes, and how\n"
        "each ended. --json prints every column of labs.capture.connections.",
    )
    _add_common(verb, main_connections)
    _add_ladder(verbs)
    _add_graph(verbs)
    _add_stalls(verbs)


def main(args: argparse.Namespace) -> int:
    answer: int = args.answer(args)
    return answer


def main_table(args: argparse.Namespace) -> int:
    """Read the capture, write the table, print its size. BadInput for another file ending."""
    out: Path = args.out
    if out.suffix not in KINDS:
        raise BadInput(f"--out {out}: the name of the table must end in {' or '.join(KINDS)}")
    from labs.read.capture.segment_table import remarks
    from labs.read.capture.table_file import write_table

    reader, rows = write_table(args.file, None if args.dry_run else out)
    held = remarks(reader.counts)
    report = {
        "file": str(args.file),
        "out": str(out),
        "written": not args.dry_run,
        "rows": rows,
        "connections": len(reader.connections),
        **held.as_json(),
    }
    if args.json:
        print(json.dumps(report))
    else:
        print_remarks(held)
        would = "would write" if args.dry_run else "wrote"
        print(f"{would} {rows:,} segments of {len(reader.connections):,} connections to {out}")
    return 0


def main_connections(args: argparse.Namespace) -> int:
    """Read the capture and list its connections."""
    from labs.read.capture.connection_tracking import connection_rows
    from labs.read.capture.reader import whole
    from labs.read.capture.segment_table import IN_PARTS, remarks

    reader = whole(args.file)
    count = len(reader.connections)
    reader.must_fit(count * LISTED_BYTES, f"{count:,} connections as a list", IN_PARTS)
    held = remarks(reader.counts)
    rows = connection_rows(reader.connections)
    if args.json:
        print(json.dumps({"file": str(args.file), "connections": rows, **held.as_json()}))
        return 0
    print_remarks(held)
    for row in rows:
        ns = row["handshake_rtt_ns"]
        row["handshake_rtt_ms"] = None if ns is None else ns / 1e6
    print(terminal_table(rows, SHOWN) if rows else f"{args.file}: {without_tcp(held)}")
    return 0


def _add_ladder(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "ladder",
        help="draw packets as a ladder diagram, with stalls",
        description="Draw packets of one connection as a ladder diagram, in a page that works\n"
        "offline.\n\n"
        "  labs capture ladder FILE --connection 3 --out ladder.html\n"
        "  labs capture ladder FILE --from 1.5s --to 1.6s --out ladder.html",
    )
    _add_connection(verb)
    verb.add_argument(
        "--frames",
        metavar="N-M",
        help="the first and last packet by their numbers in the file, as Wireshark counts",
    )
    verb.add_argument(
        "--from",
        dest="begin",
        default="0",
        metavar="ROW|TIME",
        help="the first packet: a row of the table (120), or a time after the "
        "first segment (1.5s, 250ms)",
    )
    verb.add_argument(
        "--to",
        dest="end",
        metavar="ROW|TIME",
        help="the last packet, as a row or a time (default: 40 packets of the connection)",
    )
    _add_page(verb)
    _add_common(verb, main_ladder)


def _add_graph(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "graph",
        help="draw sequence numbers, ACKs and the window over time",
        description="Draw the time-sequence graph of one connection, in a page that works\n"
        "offline. Bars are segments; the line below them shows the ACKs, the line above them\n"
        "the edge of the window. Retransmissions are marked.\n\n"
        "  labs capture graph FILE --out graph.html\n"
        "  labs capture graph FILE --whole --out graph.html\n"
        "  labs capture graph FILE --connection 3 --from-s 1.5 --to-s 2 --out g.html",
    )
    _add_connection(verb)
    verb.add_argument(
        "--sender",
        choices=ENDS,
        help="draw the segments of this end (default: the end that sent more)",
    )
    verb.add_argument(
        "--from-s",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="the first moment to draw, in seconds after the connection's first segment",
    )
    end = verb.add_mutually_exclusive_group()
    end.add_argument(
        "--to-s",
        type=float,
        metavar="SECONDS",
        help=f"the last moment to draw (default: {GRAPH_S:g} s after the first)",
    )
    end.add_argument("--whole", action="store_true", help="draw up to the connection's end")
    _add_page(verb)
    _add_common(verb, main_graph)


def _add_stalls(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "stalls",
        help="list the gaps in which nothing was sent, with their reasons",
        description="List the stalls of a capture with their reasons, and who waited for whom.\n"
        "A gap that a round trip explains is not a stall. `labs explain` divides the whole time.",
    )
    _add_connection(verb)
    verb.add_argument(
        "--min-gap-ms",
        type=float,
        default=20.0,
        metavar="NUMBER",
        help="report a gap as a stall if it exceeds the RTT by this much (default: %(default)g ms)",
    )
    _add_common(verb, main_stalls)


def _add_connection(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--connection",
        metavar="N|A:P-B:P",
        help="this one only: its number in `labs capture connections`, or both its ends",
    )


def _add_page(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--out", type=page_path, required=True, metavar="X.html", help="the page to write"
    )
    verb.add_argument("--dry-run", action="store_true", help="print what would be drawn")


def _add_common(verb: argparse.ArgumentParser, answer: Callable[[argparse.Namespace], int]) -> None:
    verb.add_argument("file", type=Path, metavar="FILE", help="a pcap or pcapng file")
    verb.add_argument("--json", action="store_true", help="print one JSON object")
    verb.set_defaults(answer=answer)


def _opened(args: argparse.Namespace) -> tuple[Remarks, DataFrame, int | None]:
    """The capture, read, and the number of the connection that was asked for, if one was. BadInput,
    with what the file contains instead, if it contains no TCP segment."""
    from labs.read.capture.connection_tracking import connection_rows, number_of
    from labs.read.capture.reader import read_columns
    from labs.read.capture.segment_table import remarks

    columns, reader = read_columns(args.file)
    held = remarks(reader.counts)
    if not held.segments:
        raise BadInput(
            "; ".join((f"{args.file}: the capture has {without_tcp(held)}", *held.lines))
        )
    word = args.connection
    chosen = None if word is None else number_of(connection_rows(reader.connections), word)
    return held, columns.table(), chosen


def main_ladder(args: argparse.Namespace) -> int:
    """Draw and write the ladder. BadInput for a range without packets or with too many."""
    from labs.read.figures.ladder import ladder

    held, segments, chosen = _opened(args)
    rows = (
        stretch(segments, chosen, args.begin, args.end)
        if args.frames is None
        else framed(segments, chosen, args.frames)
    )
    figure = ladder(segments, chosen, rows=rows, source=args.file)
    return _page(args, figure, held, {"rows": list(rows)}, f"rows {rows[0]} to {rows[1]}")


def main_graph(args: argparse.Namespace) -> int:
    """Draw and write the graph. BadInput for a connection or a time range without packets."""
    to_s = inf if args.whole else args.from_s + GRAPH_S if args.to_s is None else args.to_s
    if not 0 <= args.from_s < to_s:
        raise BadInput(
            f"--from-s {args.from_s:g} --to-s {to_s:g} is not a time range. Allowed: "
            "seconds from 0, with --from-s less than --to-s"
        )
    from labs.read.figures.time_sequence import time_sequence

    held, segments, chosen = _opened(args)
    if chosen is None:
        chosen = int(segments["connection"].mode().iloc[0])
    figure = time_sequence(
        segments,
        chosen,
        direction=ENDS.index(args.sender) if args.sender else None,
        seconds=(args.from_s, to_s),
        source=args.file,
    )
    own_ns = segments["time_ns"][segments["connection"] == chosen]
    lasts_s = float(own_ns.max() - own_ns.min()) / 1e9
    drawn = f"connection {chosen}"
    if args.from_s > 0 or to_s < lasts_s:
        drawn += (
            f", {args.from_s:g} to {min(to_s, lasts_s):.3g} s of {lasts_s:.3g} s (--whole: all)"
        )
    what = {"connection": chosen, "from_s": args.from_s, "to_s": min(to_s, lasts_s)}
    return _page(args, figure, held, what, drawn)


def _page(
    args: argparse.Namespace, figure: Figure, held: Remarks, what: dict[str, Any], text: str
) -> int:
    """Write the figure as one page, unless it is a dry run; print what it shows."""
    from labs.drive.record.disk import write_whole

    if not args.dry_run:
        page: str = figure.to_html(include_plotlyjs=True, full_html=True)
        write_whole(args.out, page.encode())
    if args.json:
        report = {"file": str(args.file), "out": str(args.out), "written": not args.dry_run}
        print(json.dumps({**report, **what, **held.as_json()}))
    else:
        print_remarks(held)
        print(f"{'would draw' if args.dry_run else 'drew'} {text} in {args.out}")
    return 0


def without_tcp(held: Remarks) -> str:
    """How to describe a file without TCP segments."""
    return "no TCP that is not encrypted" if "encrypted" in held.counts else "no TCP at all"


def page_path(word: str) -> Path:
    """The page to write. BadInput for another ending than .html."""
    if not word.endswith(".html"):
        raise BadInput(f"--out {word}: the name of the page must end in .html")
    return Path(word)


def framed(segments: DataFrame, connection: int | None, word: str) -> tuple[int, int]:
    """The first and the last row among these frames, such as 120-160, of the connection if any."""
    match = FRAMES.fullmatch(word)
    if match is None or int(match[1]) > int(match[2]):
        raise BadInput(f"--frames {word} is invalid. Allowed: two numbers, such as 120-160")
    packets = segments if connection is None else segments[segments["connection"] == connection]
    packets = packets[(packets["frame"] >= int(match[1])) & (packets["frame"] <= int(match[2]))]
    if packets.empty:
        raise BadInput(
            f"--frames {word}: no TCP segment of the connection is among them. The capture has "
            f"frames {segments['frame'].iloc[0]} to {segments['frame'].iloc[-1]}"
        )
    return int(packets.index[0]), int(packets.index[-1])


def stretch(
    segments: DataFrame, connection: int | None, begin: str, end: str | None
) -> tuple[int, int]:
    """The first and the last row of a range given by two arguments, each a row or a time."""
    from labs.read.figures.ladder import USUAL_PACKETS

    first = place(segments, begin, "--from")
    if end is not None:
        return first, place(segments, end, "--to")
    packets = segments.loc[first:]
    if connection is None and len(packets):
        connection = int(packets["connection"].iloc[0])
    packets = packets[packets["connection"] == connection]
    return first, int(packets.index[:USUAL_PACKETS][-1]) if len(packets) else first


def place(segments: DataFrame, word: str, flag: str) -> int:
    """A row by its number, or the first one at or after a time."""
    match = PLACE.fullmatch(word)
    if match is None:
        raise BadInput(
            f"{flag} {word} is invalid. Allowed: a row of the table, such as 120, or a time after "
            "the first segment, such as 1.5s or 250ms"
        )
    if match[1] is not None:
        return int(match[1])
    if segments.empty:
        return 0
    since_ns = round(float(match[2]) * UNITS_S[match[3]] * 1e9)
    later = segments["time_ns"] - segments["time_ns"].iloc[0] >= since_ns
    return int(segments.index[later][0]) if later.any() else len(segments)


def _stall(
    row: Mapping[Any, Any], begin_ns: int, ends: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A row of the table of stalls as plain data, with the ends of its connection."""
    addresses = ends[row["connection"]]
    return {
        **{str(name): value for name, value in row.items()},
        "rtt_ms": None if isnan(row["rtt_ms"]) else row["rtt_ms"],
        "at_s": (row["at_ns"] - begin_ns) / 1e9,
        "frames": f"{row['frame_before']}-{row['frame_after']}",
        **{end: f"{addresses[end]}:{addresses[f'{end}_port']}" for end in ENDS},
    }


def main_stalls(args: argparse.Namespace) -> int:
    """List every stall and its reason. BadInput for a minimum gap that is not above 0."""
    if not 0 < args.min_gap_ms < inf:
        raise BadInput(
            f"--min-gap-ms {args.min_gap_ms:g} is out of range. Allowed: a number of milliseconds "
            "above 0, such as 20"
        )
    from labs.read.capture.connection_tracking import number_of
    from labs.read.capture.parts import whole_connections
    from labs.read.capture.segment_table import remarks
    from labs.read.flows.path import icmp_errors
    from labs.read.flows.verdict import Judge
    from labs.read.flows.waits import COLUMNS, explained_waits, find_stalls, together

    judge = Judge()

    def of_part(table: Table) -> tuple[Stalls, int]:
        waited = explained_waits(table, errors)
        judge.add(waited)
        return find_stalls(waited, min_gap_ms=args.min_gap_ms), len(waited.state)

    with whole_connections(args.file, args.connection) as capture:
        held, errors = remarks(capture.reader.counts), icmp_errors(capture.reader.connections)
        # As a function, so that each part is freed before the next one is read.
        parts = [*map(of_part, capture.tables)]
    segments = sum(count for _, count in parts)
    stalls, judged, ends = (
        together([part for part, _ in parts]),
        judge.verdict(),
        capture.connections,
    )
    chosen = ends if args.connection is None else [ends[number_of(ends, args.connection)]]
    begin_ns = min((int(connection["first_ns"]) for connection in chosen), default=0)
    rows = [_stall(dict(zip(COLUMNS, row, strict=True)), begin_ns, ends) for row in stalls.rows]
    reasons = by_reason(rows)
    if args.json:
        report = {
            "file": str(args.file),
            "segments": segments,
            "verdict": judged.as_json(),
            "reasons": reasons,
            "stalls": rows,
            "acks_of_missing": stalls.acks_of_missing,
            "rtt_unknown": stalls.rtt_unknown,
            "undecided": stalls.undecided,
            "longest_undecided_ms": stalls.longest_undecided_ms,
        }
        print(json.dumps({**report, **held.as_json()}))
        return 0
    print_remarks(held)
    for line in judged.lines if held.segments else ():
        print(f"labs: {line}", file=sys.stderr)
    if stalls.undecided:
        print(f"labs: {describe_undecided(stalls)}", file=sys.stderr)
    print(
        describe(args.file, rows, reasons) if held.segments else f"{args.file}: {without_tcp(held)}"
    )
    return 0


def print_remarks(held: Remarks) -> None:
    """Print on stderr what the file contains besides TCP segments, one line per remark."""
    for line in held.lines:
        print(f"labs: {line}", file=sys.stderr)


def describe_undecided(stalls: Stalls) -> str:
    """The gaps that are not listed because the RTT is unknown."""
    return (
        f"not listed, because they may be no longer than an RTT: {stalls.undecided:,} gaps of "
        f"connections of unknown RTT, the longest of {stalls.longest_undecided_ms:.3f} ms"
    )


def by_reason(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per reason with its meaning, in descending order of total time."""
    from labs.read.flows.reasons import explained

    lengths: dict[str, list[float]] = {}
    for row in rows:
        lengths.setdefault(row["reason"], []).append(row["gap_ms"])
    return [
        {
            "reason": reason,
            "stalls": len(ms),
            "longest_ms": max(ms),
            "together_ms": sum(ms),
            "words": explained(reason).words,
            "source": explained(reason).source,
        }
        for reason, ms in sorted(lengths.items(), key=lambda pair: -sum(pair[1]))
    ]


def describe(path: Path, rows: Sequence[dict[str, Any]], reasons: Sequence[dict[str, Any]]) -> str:
    """The stalls by reason, the longest of them, and what the reasons mean."""
    if not rows:
        return f"{path}: no stall: no gap is certain to be longer than an RTT"
    longest = sorted(rows, key=lambda row: -row["gap_ms"])[:LONGEST]
    explanations = [
        "\n".join(
            textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent="  ")
            for text, indent in (
                (f"{reason['reason']}: {reason['words']}", ""),
                (reason["source"], "  "),
            )
        )
        for reason in reasons
    ]
    return "\n\n".join(
        [
            terminal_table(reasons, COLUMNS),
            f"the longest {len(longest)}:",
            terminal_table(longest, LONGEST_COLUMNS),
            *explanations,
        ]
    )
