"""The model of a bulk transfer, tested against the kernel at the stored points.

    make model
    python3 benchmarks/model.py [--set wget [--only 0..9]] [--into RUNS] [--json] [--jobs N]

Measures each point of every set on the virtual testbed, as a download from nginx (the lab
`buffers`; the sets a, b, c and links with iperf3, the lab `sweeps`), predicts it with
`labs.read.theory.bulk.transfer`, and prints the errors per kernel and per bound, and the goal. The
exit code is 5 if a set of downloads by wget does not meet the goal. Runs are reused, so a second
call takes seconds. The files `model-SET.json` (all points) and `model-SET.html` (the
chart) are written next to the runs. Points that were not measured, or that the model cannot
predict, are counted.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # started as a file: its folder is on the path, the project is not
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.model_chart import errors
from benchmarks.model_errors import GOAL_WORST_PCT, Compared, describe, error_pct, missed
from benchmarks.points import AUTOMATIC_BYTES, CLIENTS, NAMES, QUEUE_PACKETS, Point, read
from labs.catalog import find
from labs.errors import BadInput, LabError, RunFailed
from labs.experiments.buffers.conditions import CORE, RMEM, WMEM
from labs.experiments.buffers.results import of_client
from labs.experiments.buffers.settings import WGET
from labs.experiments.buffers.settings import Settings as Downloads
from labs.experiments.sweeps.conditions import PORT, condition
from labs.experiments.sweeps.settings import Settings
from labs.guest.condition import Condition, as_settings
from labs.guest.testbed.link import Link
from labs.guest.units import KIB, bytes_carried
from labs.launch.launch import run
from labs.launch.progress import Bar
from labs.launch.wanted import Wanted
from labs.read.readings.arrivals import arrivals
from labs.read.readings.instruments import capture_losses
from labs.read.runs.run import Run
from labs.read.theory.bulk import Transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_interval import decided, interval

INTO = "runs/model"
TIMESTAMPS_BYTES = 12
PATH_MSS_BYTES = 1448
LIMIT_S = 3600.0
SAMPLES = 100
"""The approximate number of samples of the sockets per run; at most one per millisecond."""
NOT_MET = 5
"""The exit code if the goal is not met."""


def condition_of(point: Point) -> Condition:
    """The condition that measures a point: of the lab `buffers` for a download from nginx,
    otherwise of `sweeps`."""
    return of_buffers(point) if point.client else of_sweeps(point)


def of_buffers(point: Point) -> Condition:
    """The download of a point."""
    link = Link(
        rate_mbit=point.rate_mbit,
        delay_ms=point.rtt_ms,
        queue_packets=point.queue_packets,
        shaped_at=point.shaped_at,
    )
    requests = {"server": point.sndbuf_kib * KIB, "client": point.rcvbuf_kib * KIB}
    names = {"server": WMEM, "client": RMEM}
    sysctls = {
        host: {CORE[host]: str(size)}
        if point.setsockopt
        else {names[host]: f"4096 {2 * size} {2 * size}"}
        for host, size in requests.items()
        if size
    }
    asked = {host: size or None if point.setsockopt else None for host, size in requests.items()}
    settings = Downloads(
        client=point.client,
        read_bytes=point.read_bytes or Downloads.read_bytes,
        transfer_bytes=point.transfer_bytes,
        limit_s=LIMIT_S,
        capture=True,
        server_sndbuf_bytes=asked["server"],
        client_rcvbuf_bytes=asked["client"],
    )
    return Condition(point.name, link, sysctls, as_settings(settings))


def of_sweeps(point: Point) -> Condition:
    """The transfer by iperf3 of a point."""
    link = Link(
        rate_mbit=point.rate_mbit,
        delay_ms=point.rtt_ms,
        queue_packets=point.queue_packets,
        port=PORT,
    )
    mss_bytes = 0 if point.mss_bytes == PATH_MSS_BYTES else point.mss_bytes + TIMESTAMPS_BYTES
    buffers = [2 * kib * KIB or AUTOMATIC_BYTES for kib in (point.sndbuf_kib, point.rcvbuf_kib)]
    round_trip_bytes = min(bytes_carried(point.rate_mbit, point.rtt_ms), *buffers)
    least_ms = point.rtt_ms * point.transfer_bytes / round_trip_bytes
    settings = Settings(
        write_bytes=point.write_bytes,
        mss_bytes=mss_bytes,
        transfer_bytes=point.transfer_bytes,
        sndbuf_kib=point.sndbuf_kib,
        rcvbuf_kib=point.rcvbuf_kib,
        limit_s=LIMIT_S,
        sample_ms=max(1, round(least_ms / SAMPLES)),
    )
    return condition(point.name, link, settings)


def flow_of(point: Point) -> Flow:
    """The same point as input of the model."""

    def granted(kib: int) -> int | None:
        return 2 * kib * KIB or None

    return Flow(
        rate_mbit=point.rate_mbit,
        rtt_ms=point.rtt_ms,
        kernel=point.kernel,
        mss_bytes=point.mss_bytes,
        sndbuf_bytes=granted(point.sndbuf_kib),
        rcvbuf_bytes=granted(point.rcvbuf_kib),
        write_bytes=point.write_bytes or Flow.write_bytes,
        queue_packets=point.queue_packets,
        offloads=point.shaped_at != "router",
        **(downloaded(point) if point.client else {}),
    )


def downloaded(point: Point) -> dict[str, Any]:
    """How nginx and the client of a point differ from iperf3."""
    return {
        "sndbuf_locked": point.setsockopt and bool(point.sndbuf_kib),
        "rcvbuf_locked": point.setsockopt and bool(point.rcvbuf_kib),
        "core_max_bytes": point.rcvbuf_kib * KIB if point.setsockopt else None,
        **of_client(point.client, point.transfer_bytes, point.read_bytes),
    }


def measure(points: Sequence[Point], into: str, jobs: int | None) -> dict[str, Run | str]:
    """The run of each point by name, or why there is none."""
    outcomes: dict[str, Run | str] = {}
    ordered = sorted(points, key=lambda point: point.kernel)
    with Bar("model", len(points)) as bar:
        for kernel, of_kernel in groupby(ordered, lambda point: point.kernel):
            left = list(of_kernel)
            while left:
                try:
                    runs = perform(
                        [condition_of(point) for point in left],
                        kernel,
                        into,
                        Wanted(jobs=jobs, tell=bar.tell),
                    )
                    outcomes |= {run.condition: run for run in runs}
                    break
                except RunFailed as error:
                    failed = named(str(error), left)
                    if failed is None:
                        raise
                    outcomes[failed.name] = str(error)
                    left.remove(failed)
    return outcomes


def perform(
    conditions: Sequence[Condition], kernel: str, into: str, wanted: Wanted
) -> tuple[Run, ...]:
    """The runs of these conditions on one kernel; existing ones are reused."""
    base_lab = find("sweeps" if conditions[0].link.port == PORT else "buffers")
    lab = replace(base_lab, all_conditions=lambda p: tuple(conditions), groups=(), _conditions={})
    return run(lab, base_lab.Parameters(kernel=kernel, runs=into), wanted).runs


def named(message: str, points: Iterable[Point]) -> Point | None:
    """The point that the message of a failed run names."""
    match = re.match(r"(?:sweeps|buffers) (\S+): ", message)
    return next((point for point in points if match and point.name == match[1]), None)


def compare(point: Point, measured: Run | str) -> Compared:
    """Compare the measurement of a point with its prediction."""
    predicted: Transfer | None = None
    try:
        predicted = decided(flow_of(point), point.transfer_bytes)
        reason = predicted.cannot_say
    except LabError as error:
        reason = str(error)
    if isinstance(measured, str):
        return _compared(point, None, predicted, measured)
    return judged(_compared(point, measured, predicted, reason))


def judged(result: Compared) -> Compared:
    """The same, with `beyond_pct` if the error is above the goal."""
    if result.error_pct is None or result.error_pct <= GOAL_WORST_PCT:
        return result
    return replace(result, beyond_pct=beyond_pct(result))


def beyond_pct(result: Compared) -> float | None:
    """How far a measurement lies outside the model's interval, in percent of the measurement."""
    wide = interval(flow_of(result.point), result.point.transfer_bytes)
    if wide is None:
        return None
    return max(
        100 * max(low / measured - 1, 1 - high / measured, 0)
        for (low, high), measured in (
            (wide.steady_bytes_s, result.measured_steady_bytes_s or 0),
            (wide.goodput_bytes_s, result.measured_goodput_bytes_s or 0),
        )
    )


def _compared(point: Point, run: Run | None, predicted: Transfer | None, reason: str) -> Compared:
    seen = arrivals(run) if run else None
    usable = predicted if predicted and not predicted.cannot_say else None
    measured_s = seen.took_s if seen else None
    steady = seen.steady_bytes_s if seen else None
    goodput = seen.goodput_bytes_s if seen else None
    predicted_s = usable.took_s if usable else None
    return Compared(
        point=point,
        run=run.name if run else None,
        measured_goodput_bytes_s=goodput,
        measured_steady_bytes_s=steady,
        measured_s=measured_s,
        predicted_goodput_bytes_s=usable.goodput_bytes_s if usable else None,
        predicted_steady_bytes_s=usable.steady_bytes_s if usable else None,
        predicted_s=predicted_s,
        steady_error_pct=error_pct(usable.steady_bytes_s if usable else None, steady),
        # The time for N bytes is N by goodput.
        time_error_pct=error_pct(goodput, usable.goodput_bytes_s if usable else None),
        bound=predicted.bound if predicted else "",
        reason=reason,
        disturbed=disturbed(run) if run else "",
    )


def disturbed(run: Run) -> str:
    """What was wrong with a run: the model assumes the requested link, and no loss but those of a
    short queue."""
    short = (run.link.asked.queue_packets or 0) < QUEUE_PACKETS
    lost = 0 if short else run.nstat("server").get("TcpRetransSegs", 0)
    problems = (
        *run.link.problems,
        *([f"{lost} retransmissions"] if lost else []),
        *(["not all bytes arrived"] if run.ended != "complete" else []),
        *(["tcpdump lost packets"] if capture_losses(run) else []),
    )
    return "; ".join(problems)


def chosen(points: Sequence[Point], only: str) -> list[Point]:
    """The points that `only` names by their numbers: 7, 0..9, or several with commas."""
    if not only:
        return list(points)
    numbers: set[int] = set()
    for part in only.split(","):
        match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", part.strip())
        if match is None:
            raise BadInput(f"--only {only} cannot be read. Allowed: numbers such as 7 or 0..9")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < len(points):
            raise BadInput(f"--only {part} is out of range. Allowed: 0 to {len(points) - 1}")
        numbers |= set(range(first, last + 1))
    return [points[number] for number in sorted(numbers)]


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make model", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--set", choices=NAMES, help="score this set (default: every set)")
    parser.add_argument("--only", default="", metavar="N..M", help="only these points of a set")
    parser.add_argument(
        "--into", default=INTO, metavar="RUNS", help=f"folder for the runs (default: {INTO})"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="concurrent runs")
    parser.add_argument("--json", action="store_true", help="print every point as JSON")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, compare, print, and write the files of each set."""
    args = arguments(words)
    by_set: dict[str, list[Compared]] = {}
    try:
        if args.only and not args.set:
            raise BadInput("--only selects points of one set. Name it: --set wget")
        for name in [args.set] if args.set else NAMES:
            points = chosen(read(name), args.only)
            measured = measure(points, args.into, args.jobs)
            by_set[name] = [compare(point, measured[point.name]) for point in points]
            write(name, by_set[name], Path(args.into))
            if not args.json:
                print(f"Set {name}\n\n{describe(by_set[name])}\n", flush=True)
    except LabError as error:
        print(f"model: {error}", file=sys.stderr)
        return error.exit_code
    if args.json:
        print(as_json([result for compared in by_set.values() for result in compared]))
    held = [compared for name, compared in by_set.items() if CLIENTS.get(name) == WGET]
    return NOT_MET if any(map(missed, held)) else 0


def write(name: str, compared: Sequence[Compared], folder: Path) -> None:
    """The files of a set: its points, and the chart of their errors."""
    (folder / f"model-{name}.json").write_text(as_json(compared) + "\n")
    errors(compared, name, GOAL_WORST_PCT).write_html(folder / f"model-{name}.html")


def as_json(compared: Sequence[Compared]) -> str:
    return json.dumps([asdict(result) for result in compared], indent=1)


if __name__ == "__main__":
    sys.exit(main())
