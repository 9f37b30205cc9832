"""Explain mutated captures until something breaks: `make fuzz-explain`.

    python -m tests.fuzz_explain [--inputs N] [--seed N] [--first N]

The inputs are those of `tests.fuzz_capture` and captures of every tunnel, changed in a few places.
Connections are explained one by one, so the segments of many inputs are explained as one table,
which is ten times as fast. If that breaks, its inputs are explained singly, and the one that breaks
is kept in tests/fixtures/capture/crashes, where a unit test reads it ever after.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from pandas import DataFrame

from labs.errors import LabError
from labs.read.capture.connection_tracking import connection_rows
from labs.read.capture.reader import read_columns
from labs.read.capture.segment_table import COUNTS, remarks
from labs.read.flows.account import FileAccount
from labs.read.flows.explain import account
from labs.read.flows.path import facts_of
from tests.captures import pcap
from tests.fuzz_capture import CRASHES, mutated, seeds
from tests.shells import KINDS

AT_ONCE = 500
SECONDS = 60
MEMORY_BYTES = 3 << 30
MOST_ROWS = 2_000

Array = np.ndarray[Any, Any]
Input = tuple[dict[str, Array], Array]
"""Its segments by column, and the words of its connections."""


def sources(folder: Path) -> list[bytes]:
    """The captures to mutate, in a fixed order."""
    made = [
        pcap(folder / f"{kind}.pcap", frames, link).read_bytes()
        for kind, (frames, link) in KINDS.items()
    ]
    return seeds(folder / "captures") + made


def taken(path: Path) -> Input | None:
    """The segments of an input; None if it has none, or is refused."""
    try:
        columns, reader = read_columns(path)
    except LabError as error:
        assert "\n" not in str(error)
        return None
    if not columns.rows:
        return None
    return {name: values[:MOST_ROWS] for name, values in columns.arrays()}, reader.connections


def joined(inputs: Sequence[Input]) -> FileAccount:
    """The account of all inputs as one table."""
    all_connections = np.concatenate([connections for _, connections in inputs])
    before = np.cumsum([0, *(len(connections) for _, connections in inputs)])
    columns = {
        name: np.concatenate([segments[name] for segments, _ in inputs]) for name in inputs[0][0]
    }
    counts = [len(segments["connection"]) for segments, _ in inputs]
    columns["connection"] += np.repeat(before[:-1], counts).astype(np.int32)
    table = DataFrame(columns, copy=False)
    return account(
        "x",
        (table,),
        connection_rows(all_connections),
        remarks([0] * COUNTS),
        facts_of(all_connections),
    )


def judge(file_account: FileAccount) -> None:
    """The account holds together and can be printed."""
    assert file_account.describe(most=len(file_account.accounts))
    json.dumps(file_account.as_json(), allow_nan=False)
    for connection in file_account.accounts:
        parts = sum(finding.time_ms for finding in connection.findings)
        assert parts >= connection.duration_ms - 0.001 and connection.lost_ms <= parts + 0.001, (
            connection
        )
        for finding in connection.findings:
            assert finding.count > 0 and finding.time_ms >= 0, finding
            for begin, end in finding.frames:
                assert connection.first_frame <= begin <= end <= connection.last_frame, finding


def too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def explain_all(seed: int, first: int, count: int, work: Path) -> tuple[int, int]:
    """Explain these inputs: how many connections were explained, and how many inputs broke it."""
    seeds = sources(work)
    current, explained, crashes = work / "input", 0, 0
    for begin in range(first, first + count, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, first + count))
        inputs: dict[int, Input] = {}
        for number in numbers:
            signal.alarm(SECONDS)
            current.write_bytes(content(seed, number, seeds))
            taken_input = taken(current)
            if taken_input is not None:
                inputs[number] = taken_input
        try:
            signal.alarm(SECONDS)
            file_account = joined(list(inputs.values()))
            judge(file_account)
            explained += len(file_account.accounts)
        except Exception:
            for number, taken_input in inputs.items():
                try:
                    signal.alarm(SECONDS)
                    judge(joined([taken_input]))
                except Exception as error:
                    crashes += 1
                    kept = CRASHES / f"explain-seed-{seed}-input-{number}"
                    kept.write_bytes(content(seed, number, seeds))
                    print(f"{kept.name}: {type(error).__name__}: {error}"[:300], flush=True)
    signal.alarm(0)
    return explained, crashes


def content(seed: int, number: int, seeds: list[bytes]) -> bytes:
    chance = random.Random(seed * 1_000_003 + number)
    return mutated(chance.choice(seeds), seeds, chance)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, too_long)
    begun, crashes, each = time.monotonic(), 0, 10_000
    for first in range(args.first, args.first + args.inputs, each):
        count = min(each, args.first + args.inputs - first)
        with tempfile.TemporaryDirectory() as folder:
            explained, broke = explain_all(args.seed, first, count, Path(folder))
        crashes += broke
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{first + count - args.first:,} inputs, {explained:,} connections of the last, "
            f"{crashes} crashes, {time.monotonic() - begun:.0f} s, at most {peak_mb:,} MB",
            flush=True,
        )
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
