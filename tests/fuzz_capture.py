"""Read mutated captures until something breaks: `make fuzz-capture`.

    python -m tests.fuzz_capture [--inputs N] [--seed N] [--first N]

Each input is one of the captures of the tests, real or made, changed in a few places. Reading it
must end in seconds, in a table that holds together or in one of the project's errors, and so must,
for every hundredth input, whatever is made of the table. An input that ends otherwise is kept in
tests/fixtures/capture/crashes, where a unit test reads it ever after, and the next one is read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from labs.errors import LabError
from labs.read.capture.connection_tracking import connection_rows, connection_table
from labs.read.capture.reader import Reader, read_columns
from labs.read.capture.segment_table import WORDS, Columns, remarks
from labs.read.capture.tcp_marks import marks
from labs.read.flows.connection_state import connection_state
from labs.read.flows.exchanges import exchanges
from labs.read.flows.explain import account
from labs.read.flows.reasons import explained
from labs.read.flows.rtt import time_to_ack
from labs.read.flows.waits import stalls
from labs.read.readings.responses import answered
from tests import captures

ROOT = Path(__file__).parents[1]
FIXTURES, DATA = ROOT / "tests" / "fixtures", ROOT / "data"
CRASHES = FIXTURES / "capture" / "crashes"
SEED_BYTES = 6_000  # as much of a real capture as is worth changing
AT_ONCE = 10_000
COMMAND = (sys.executable, "-m", "tests.fuzz_capture")
SECONDS_EACH = 20
# Explaining a capture takes a hundred times as long as reading it.
EXPLAINED_EACH = 100
EXPLAINED_ROWS = 2_000
MEMORY_BYTES = 4 << 30
LENGTHS = (
    0,
    1,
    3,
    4,
    8,
    11,
    12,
    15,
    16,
    20,
    24,
    28,
    32,
    60,
    255,
    256,
    65535,
    65536,
    1 << 24,
    (1 << 24) + 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
)


def seeds(folder: Path) -> list[bytes]:
    """The captures to mutate, in a fixed order."""
    seeds = [path.read_bytes() for _, path in sorted(captures.made(folder).items())]
    for path in sorted([*FIXTURES.glob("*/*.pcap*"), *DATA.glob("explain-*.pcap.gz")]):
        content = path.read_bytes()
        seeds.append((gzip.decompress(content) if path.suffix == ".gz" else content)[:SEED_BYTES])
    return seeds


def mutated(seed: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """The capture with one to six mutations, of eight kinds."""
    content = bytearray(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(content) + 1)
        kind = chance.randrange(8)
        if kind == 0:
            content[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            for place in range(at, min(at + 1, len(content))):
                content[place] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del content[at:]
        elif kind == 3:
            del content[at : at + chance.choice((1, 2, 4, 16, 100))]
        elif kind == 4:
            content[at:at] = chance.randbytes(chance.choice((1, 2, 4, 16, 100)))
        elif kind == 5:
            order = chance.choice("<>")
            at &= ~3
            content[at : at + 4] = struct.pack(order + "I", chance.choice(LENGTHS))
        elif kind == 6:
            other = chance.choice(others)
            begin = chance.randrange(len(other) + 1)
            content[at:at] = other[begin : begin + chance.choice((24, 100, 1000))]
        else:
            content[at : at + 2] = struct.pack(">H", chance.choice((0, 6, 20, 65535, 0x8100)))
    return bytes(content)


def judge(path: Path, rows: int | None = None, *, deep: bool = True) -> str:
    """Read a file and, if `deep`, explain it; the name of the error it is refused with, or "".

    AssertionError for a table that does not hold together; with `rows`, for pieces that do not
    equal it.
    """
    try:
        columns, reader = read_columns(path)
    except LabError as error:
        assert "\n" not in str(error)
        return type(error).__name__
    counted = remarks(reader.counts)
    skipped = sum(counted.counts.get(name, 0) for name, _, no_row, _ in WORDS if no_row)
    assert counted.packets == counted.segments + skipped
    assert counted.segments == columns.rows
    table = dict(columns.arrays())
    connections = reader.connections
    if columns.rows:
        assert (table["payload_bytes"] >= 0).all()
        assert table["connection"].min() >= 0
        assert table["connection"].max() == len(connections) - 1
        assert (table["offset"][1:] > table["offset"][:-1]).all()
        assert (table["sack_blocks"] <= 4).all()
        assert ((table["direction"] == 0) | (table["direction"] == 1)).all()
    if rows is not None:
        again = Reader(path)
        done, more = 0, True
        while more:
            piece = Columns(rows)
            more = again.fill(piece)
            for name, values in piece.arrays():
                assert (values == table[name][done : done + piece.rows]).all(), name
            done += piece.rows
        assert done == columns.rows
    if deep:
        explain(columns, reader)
    return ""


def explain(columns: Columns, reader: Reader) -> None:
    """Derive from a capture everything that the project derives."""
    segments = columns.table().iloc[:EXPLAINED_ROWS]
    rows = connection_rows(reader.connections[:EXPLAINED_ROWS])
    assert len(rows) == len(connection_table(reader.connections[:EXPLAINED_ROWS]))
    json.dumps(rows, allow_nan=False)
    assert len(marks(segments)) == len(segments)
    state = connection_state(segments)
    assert len(state) == len(segments) and (state.mss_bytes > 0).all()
    silent, requests, acks = stalls(segments), exchanges(segments), time_to_ack(segments)
    for silences in (silent, requests):
        for reason in set(silences["reason"]):
            assert explained(reason).words
    for name in ("before", "after"):
        assert silent[name].isin(segments.index).all()
    file_account = account(
        "x", (segments,), connection_rows(reader.connections), remarks(reader.counts), {}
    )
    assert file_account.describe()
    json.dumps(file_account.as_json(), allow_nan=False)
    for connection in file_account.accounts:
        parts = sum(finding.time_ms for finding in connection.findings)
        assert parts >= 0 and connection.lost_ms >= 0
    assert len(requests) <= len(segments) and len(acks) <= len(segments)
    assert (requests["answer_bytes"] >= 0).all() and (requests["segments"] > 0).all()
    assert answered(segments, requests).requests == len(requests)


def outcomes(seed: int, first: int, count: int, current: Path) -> Counter[str]:
    """Judge inputs `first` to `first + count`: how many were read (""), or refused with which
    error. `current` holds the one in hand, and its number stands beside it."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        sources = seeds(Path(folder))
    for number in range(first, first + count):
        chance = random.Random(seed * 1_000_003 + number)
        current.write_bytes(mutated(chance.choice(sources), sources, chance))
        _number_of(current).write_text(str(number))
        signal.alarm(SECONDS_EACH)  # its default is death: compiled code hears nothing else
        counts[
            judge(
                current,
                rows=chance.randrange(1, 40) if number % 16 == 0 else None,
                deep=number % EXPLAINED_EACH == 0,
            )
        ] += 1
    signal.alarm(0)
    return counts


def _number_of(current: Path) -> Path:
    return current.with_suffix(".number")


def worked(
    command: tuple[str, ...], seed: int, first: int, count: int, current: Path, crashes: Path
) -> list[Path]:
    """Judge these inputs in processes of this command, and keep those that break one: the next
    process goes on behind them. The kept files."""
    kept, end = [], first + count
    while first < end:
        _number_of(current).unlink(missing_ok=True)
        done = subprocess.run(
            [
                *command,
                "--seed",
                str(seed),
                "--first",
                str(first),
                "--work",
                str(end - first),
                str(current),
            ],
            cwd=ROOT,
            check=False,
        )
        if done.returncode == 0:
            break
        if done.returncode == -signal.SIGTERM:
            raise SystemExit("stopped from outside: no input did that")
        if not _number_of(current).exists():
            raise SystemExit("no input was read: what stands above is not of a capture")
        number = int(_number_of(current).read_text())
        crashes.mkdir(exist_ok=True)
        kept.append(crashes / f"seed-{seed}-input-{number}")
        kept[-1].write_bytes(current.read_bytes())
        print(f"input {number} ended with {done.returncode}: kept {kept[-1]}", flush=True)
        first = number + 1
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument("--work", nargs=2, metavar=("COUNT", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        outcomes(args.seed, args.first, int(args.work[0]), Path(args.work[1]))
        return 0
    crashes, begun = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        current = Path(folder) / "input"
        for first in range(args.first, args.first + args.inputs, AT_ONCE):
            count = min(AT_ONCE, args.first + args.inputs - first)
            crashes += len(worked(COMMAND, args.seed, first, count, current, CRASHES))
            print(
                f"{first + count - args.first:,} inputs, {crashes} crashes, "
                f"{time.monotonic() - begun:.0f} s",
                flush=True,
            )
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
