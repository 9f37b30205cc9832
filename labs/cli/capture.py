"""Read a packet capture: its TCP segments as a table, its connections, its stalls, diagrams.

FILE is a pcap or pcapng file from any machine, plain or compressed with gzip or zstd. Packets
without a row in the table (other protocols, damaged packets) are counted and reported on stderr.
Without the compiled library (`make ready`, or a wheel for this system) Python reads, more than 200
times more slowly. Parquet needs the extra `capture`.
"""

from __future__ import annotations

import re
from argparse import Namespace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.cli.command import DRY_RUN, Answer, Verb, arg
from labs.cli.explain import CONNECTION
from labs.errors import BadInput
from labs.read.display.format import terminal_table

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from labs.read.capture import Remarks

SHOWN = (
    *("connection", "client", "client_port", "server", "server_port", "handshake_rtt_ms"),
    *("client_bytes", "server_bytes", "client_segments", "server_segments"),
    *("client_retransmissions", "server_retransmissions", "ended"),
)
LISTED_BYTES = 3_600
"""Memory that listing a connection takes, as rows and as text; measured."""
FRAMES = re.compile(r"(\d+)-(\d+)")
ENDS = ("client", "server")  # direction 0 and 1
GRAPH_S = 3.0
"""What a graph shows by default: the ACKs and the window of a longer time are one line."""


def main_table(args: Namespace) -> Answer:
    """Write a table with one row per TCP segment.

      labs capture table FILE --out segments.parquet
      labs capture table FILE.pcapng.gz --out segments.csv

    The columns are those of labs.capture.read; its help describes them with their units.
    """
    from labs.read.capture.segment_table import remarks
    from labs.read.capture.table_file import write_table

    reader, rows = write_table(args.file, None if args.dry_run else args.out)
    held, connections = remarks(reader.counts), len(reader.connections)
    would = "would write" if args.dry_run else "wrote"
    text = f"{would} {rows:,} segments of {connections:,} connections to {args.out}"
    report = {"rows": rows, "connections": connections, **held.as_json()}
    return Answer(_written(args) | report, text, held.lines)


def main_connections(args: Namespace) -> Answer:
    """List the connections: endpoints, handshake RTT, bytes, and how each ended.

    --json prints every column of labs.capture.connections.
    """
    from labs.read.capture.connection_tracking import connection_rows
    from labs.read.capture.reader import whole
    from labs.read.capture.segment_table import IN_PARTS, remarks

    reader = whole(args.file)
    count = len(reader.connections)
    reader.must_fit(count * LISTED_BYTES, f"{count:,} connections as a list", IN_PARTS)
    held = remarks(reader.counts)
    rows = connection_rows(reader.connections)

    def text() -> str:
        times = [(row, row["handshake_rtt_ns"]) for row in rows]
        shown = [{**row, "handshake_rtt_ms": None if ns is None else ns / 1e6} for row, ns in times]
        return terminal_table(shown, SHOWN) if rows else f"{args.file}: {without_tcp(held)}"

    report = {"file": str(args.file), "connections": rows, **held.as_json()}
    return Answer(report, text, held.lines)


def main_ladder(args: Namespace) -> Answer:
    """Draw packets of one connection as a ladder diagram, with stalls, in an offline page.

    labs capture ladder FILE --connection 3 --out ladder.html
    labs capture ladder FILE --from-s 1.5 --to-s 1.6 --out ladder.html
    """
    from labs.read.figures.ladder import ladder

    held, segments, chosen = _opened(args)
    rows = _rows(segments, chosen, args)
    figure = ladder(segments, chosen, rows=rows, source=args.file)
    return _page(args, figure, held, {"rows": list(rows)}, f"rows {rows[0]} to {rows[1]}")


def main_graph(args: Namespace) -> Answer:
    """Draw sequence numbers, ACKs and the window over time, in an offline page.

    Bars are the segments of one connection; the line below them shows the ACKs, the line above them
    the edge of the window. Retransmissions are marked.

      labs capture graph FILE --out graph.html
      labs capture graph FILE --whole --out graph.html
      labs capture graph FILE --connection 3 --from-s 1.5 --to-s 2 --out g.html
    """
    to_s = inf if args.whole else args.from_s + GRAPH_S if args.to_s is None else args.to_s
    _check_times(args.from_s, to_s)
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
    times_ns = segments["time_ns"][segments["connection"] == chosen]
    lasts_s = float(times_ns.max() - times_ns.min()) / 1e9
    if args.from_s > lasts_s:
        raise BadInput(f"--from-s {args.from_s:g} is after the end, {lasts_s:.3g} s. Give less")
    end_s = min(to_s, lasts_s)
    drawn = f"connection {chosen}"
    if args.from_s > 0 or to_s < lasts_s:
        drawn += f", {args.from_s:g} to {end_s:.3g} s of {lasts_s:.3g} s (--whole: all)"
    what = {"connection": chosen, "from_s": args.from_s, "to_s": end_s}
    return _page(args, figure, held, what, drawn)


def main_stalls(args: Namespace) -> Answer:
    """List the stalls with their reasons, and who waited for whom.

    A gap that a round trip explains is not a stall. `labs explain` divides the whole time.
    """
    from labs.read.flows.stall_list import stalls_of

    stalls = stalls_of(args.file, args.connection, args.min_gap_ms)
    held = stalls.remarks
    text = stalls.describe if held.segments else f"{args.file}: {without_tcp(held)}"
    return Answer(stalls.as_json(), text, stalls.lines)


FILE = arg("FILE", "a pcap or pcapng file", Path)
PAGE = (
    FILE,
    CONNECTION,
    arg("--out X.html", "the page to write", required=True),
    arg("--from-s SECONDS", "the first moment to draw, after the first segment", float, 0.0),
    DRY_RUN,
)
VERBS = {
    "table": Verb(
        main_table,
        (
            FILE,
            arg(
                "--out X.parquet|X.csv",
                "the file to write; its ending selects the format",
                required=True,
            ),
            DRY_RUN,
        ),
    ),
    "connections": Verb(main_connections, (FILE,)),
    "ladder": Verb(
        main_ladder,
        (
            *PAGE,
            arg("--to-s SECONDS", "the last moment (default: 40 packets of the connection)", float),
            arg(
                "--frames N-M",
                "the first and last packet by their numbers in the file, as Wireshark counts",
            ),
        ),
    ),
    "graph": Verb(
        main_graph,
        (
            *PAGE,
            arg("--to-s SECONDS", f"the last moment (default: {GRAPH_S:g} s later)", float),
            arg("--whole", "draw up to the connection's end"),
            arg(
                "--sender client|server",
                "draw the segments of this end (default: the end that sent more)",
                choices=ENDS,
            ),
        ),
    ),
    "stalls": Verb(
        main_stalls,
        (
            FILE,
            CONNECTION,
            arg(
                "--min-gap-ms NUMBER",
                "report a gap as a stall if it exceeds the RTT by this much",
                float,
                20.0,
                least=0.001,
                most=1e9,
            ),
        ),
    ),
}


def _written(args: Namespace) -> dict[str, Any]:
    return {"file": str(args.file), "out": str(args.out), "written": not args.dry_run}


def _opened(args: Namespace) -> tuple[Remarks, DataFrame, int | None]:
    """The capture, read, and the number of the connection that was asked for, if one was. BadInput,
    with what the file contains instead, if it contains no TCP segment."""
    from labs.read.capture.connection_tracking import connection_rows, number_of
    from labs.read.capture.reader import read_columns
    from labs.read.capture.segment_table import remarks

    columns, reader = read_columns(args.file)
    held = remarks(reader.counts)
    if not held.segments:
        has = f"{args.file}: the capture has {without_tcp(held)}"
        raise BadInput("; ".join((has, *held.lines)))
    word = args.connection
    chosen = None if word is None else number_of(connection_rows(reader.connections), word)
    return held, columns.table(), chosen


def _page(
    args: Namespace, figure: Figure, held: Remarks, what: dict[str, Any], drawn: str
) -> Answer:
    """Write the figure as one page, unless it is a dry run."""
    from labs.drive.record.disk import write_whole

    if not args.dry_run:
        page: str = figure.to_html(include_plotlyjs=True, full_html=True)
        write_whole(args.out, page.encode())
    text = f"{'would draw' if args.dry_run else 'drew'} {drawn} in {args.out}"
    return Answer(_written(args) | what | held.as_json(), text, held.lines)


def without_tcp(held: Remarks) -> str:
    """How to describe a file without TCP segments."""
    return "no TCP that is not encrypted" if "encrypted" in held.counts else "no TCP at all"


def _check_times(from_s: float, to_s: float) -> None:
    if not 0 <= from_s < to_s:
        raise BadInput(
            f"--from-s {from_s:g} --to-s {to_s:g} is not a time range. Allowed: "
            "seconds from 0, with --from-s less than --to-s"
        )


def _rows(segments: DataFrame, connection: int | None, args: Namespace) -> tuple[int, int]:
    """The first and the last row to draw: among these frames, or in these seconds. BadInput if
    there is none."""
    from labs.read.figures.ladder import USUAL_PACKETS

    packets = segments if connection is None else segments[segments["connection"] == connection]
    if args.frames is not None:
        match = FRAMES.fullmatch(args.frames)
        if match is None or int(match[1]) > int(match[2]):
            raise BadInput(f"--frames {args.frames} is invalid. Allowed: such as 120-160")
        packets = packets[packets["frame"].between(int(match[1]), int(match[2]))]
    else:
        _check_times(args.from_s, inf if args.to_s is None else args.to_s)
        since_s = (packets["time_ns"] - segments["time_ns"].iloc[0]) / 1e9
        packets = packets[since_s.between(args.from_s, inf if args.to_s is None else args.to_s)]
    if packets.empty:
        asked = f"--frames {args.frames}" if args.frames else f"--from-s {args.from_s:g}"
        raise BadInput(
            f"{asked}: no TCP segment of the connection is in this range. The capture has frames "
            f"{segments['frame'].iloc[0]} to {segments['frame'].iloc[-1]}"
        )
    if args.frames is None and args.to_s is None:
        same = packets["connection"] == packets["connection"].iloc[0]
        packets = packets[same][:USUAL_PACKETS]
    return int(packets.index[0]), int(packets.index[-1])
