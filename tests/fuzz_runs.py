"""Reads mutated runs, studies, packed files, raw output, ledgers and notebooks: `make fuzz-runs`.

    python -m tests.fuzz_runs [--inputs N] [--seed N] [--jobs N] [--first N] [--kind KIND]

Each input is a real one, changed in a few places; a changed run is sealed again, so that its seal
holds. Reading it must end within seconds and within a limit of memory, in a value or in one line of
one of the project's errors, and must write nothing outside of its folder. An input that ends
otherwise is kept in tests/fixtures/crashes, where a unit test reads it ever after, and the next one
is read. The same seed and number give the same input.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labs.errors import LabError
from tests import hostile_inputs

ROOT = Path(__file__).parents[1]
CRASHES = ROOT / "tests" / "fixtures" / "crashes"
COMMAND = (sys.executable, "-m", "tests.fuzz_runs")
AT_ONCE = 20_000
CPU_SECONDS_EACH, SECONDS_EACH = 20, 200
"""What reading one input may take: of a processor, and of waiting, which a busy host prolongs."""
MEMORY_BYTES = 3 << 30
TOLD_EVERY_S = 10
STOPPED = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""How a process ends that was asked to; the second way is that of a process which unpacked runs."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# What changes files, and where among its arguments the paths are that it changes.
CHANGES = {
    "os.mkdir": slice(1),
    "os.rename": slice(2),
    "os.remove": slice(1),
    "os.rmdir": slice(1),
    "os.link": slice(1, 2),
    "os.symlink": slice(1, 2),
    "os.truncate": slice(1),
    "os.chmod": slice(1),
    "os.utime": slice(1),
}


@dataclass
class Tally:
    """What became of the inputs of one process: per kind how many were read ("") or refused with
    which error, which took longest, and the most memory that was in use."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    slowest: dict[str, tuple[float, int]] = field(default_factory=dict)
    peak_mib: int = 0

    def add(self, other: dict[str, Any]) -> None:
        """Add what another process wrote."""
        for kind, outcomes in other["outcomes"].items():
            self.outcomes[kind].update(outcomes)
        for kind, (seconds, number) in other["slowest"].items():
            self.slowest[kind] = max(self.slowest.get(kind, (0.0, 0)), (seconds, number))
        self.peak_mib = max(self.peak_mib, other["peak_mib"])

    def as_json(self) -> dict[str, Any]:
        return {
            "outcomes": self.outcomes,
            "slowest": self.slowest,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        }

    @property
    def inputs(self) -> int:
        return sum(sum(found.values()) for found in self.outcomes.values())

    def lines(self) -> Iterator[str]:
        for kind, found in sorted(self.outcomes.items()):
            seconds, number = self.slowest[kind]
            refused = ", ".join(
                f"{name} {count:,}" for name, count in sorted(found.items()) if name
            )
            yield (
                f"{kind:18} {sum(found.values()):7,} inputs: {found['']:7,} read; refused: "
                f"{refused or 'none'}; longest {seconds:.2f} s (input {number})"
            )


class Guard:
    """Notes every change of a file outside of one folder, from the whole process."""

    def __init__(self, allowed: Path) -> None:
        self.allowed, self.found = os.path.realpath(allowed), list[str]()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
            self._note(event, arguments[0])
        for path in arguments[CHANGES.get(event, slice(0))]:
            self._note(event, path)

    def _note(self, event: str, path: object) -> None:
        if isinstance(path, (str, bytes, os.PathLike)):
            folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
            real = os.path.join(os.path.realpath(folder), name)
            if not (real + "/").startswith(self.allowed + "/") and real != os.devnull:
                self.found.append(f"{event} {real!r}")


def input_of(
    seed: int, number: int, sources: hostile_inputs.Sources, only: str
) -> tuple[str, bytes]:
    """The kind and the content of an input."""
    chance = random.Random(seed * 1_000_003 + number)
    kind = only or hostile_inputs.KINDS[number % len(hostile_inputs.KINDS)]
    return kind, sources.mutated(kind, chance)


def judge(kind: str, content: bytes, sources: hostile_inputs.Sources) -> str:
    """Read an input; the name of the error that it is refused with, or "". Anything else that
    reading raises is passed on."""
    try:
        sources.read(kind, content)
    except LabError as error:
        said = str(error)
        assert said.isprintable() and said, repr(said)
        return type(error).__name__
    return ""


@contextmanager
def within(cpu_seconds: int, seconds: int) -> Iterator[None]:
    """End the process if the block takes longer: compiled code hears nothing but its death."""
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def work(args: argparse.Namespace, first: int, count: int, folder: Path) -> None:
    """Judge inputs `first` to `first + count` in this process; `folder` holds the one in hand."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    tempfile.tempdir = str(folder / "temporary")
    os.makedirs(tempfile.tempdir, exist_ok=True)
    sources = hostile_inputs.Sources(folder / "work", Path(args.sources))
    sources.warm_up()
    sys.dont_write_bytecode = True
    os.chdir(folder)  # a name relative to an open folder looks like one in the current folder
    guard, tally = Guard(folder), Tally()
    for number in range(first, first + count):
        kind, content = input_of(args.seed, number, sources, args.kind)
        (folder / "input").write_bytes(content)
        (folder / "number").write_text(f"{number} {kind}")
        begun = time.monotonic()
        try:
            with within(CPU_SECONDS_EACH, SECONDS_EACH):
                outcome = judge(kind, content, sources)
            if guard.found:
                raise AssertionError(f"changed a file elsewhere: {guard.found}")
        except Exception:
            outcome = "crash"
            kept = keep(kind, args.seed, number, content, ROOT / args.crashes)
            guard.found.clear()
            print(f"\ninput {number}: kept {kept}\n{traceback.format_exc(-4)}", flush=True)
        tally.outcomes[kind][outcome] += 1
        took = time.monotonic() - begun
        tally.slowest[kind] = max(tally.slowest.get(kind, (0.0, 0)), (took, number))
        if number % 500 == 0 or number == first + count - 1:
            (folder / "tally").write_text(json.dumps(tally.as_json()))


def keep(kind: str, seed: int, number: int, content: bytes, crashes: Path) -> Path:
    """Keep an input that broke something."""
    crashes.mkdir(parents=True, exist_ok=True)
    kept = crashes / f"{kind}-seed-{seed}-input-{number}"
    kept.write_bytes(content)
    return kept


class Fuzzing:
    """All inputs, in processes side by side; what they found, and how far they are."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args, self.folder = args, folder
        self.tally, self.lock = Tally(), threading.Lock()
        self.kept_before = self._kept()

    def _kept(self) -> set[Path]:
        return set(Path(self.args.crashes).glob("*"))

    @property
    def crashes(self) -> int:
        """How many inputs broke something, by what was kept of them."""
        return len(self._kept() - self.kept_before)

    def chunk(self, first: int, count: int, folder: Path) -> None:
        """Judge these inputs; a process that an input ends is followed by one behind it."""
        end = first + count
        while first < end:
            for name in ("number", "tally"):
                (folder / name).unlink(missing_ok=True)
            given = vars(self.args)
            flags = [f"--{name}={given[name]}" for name in ("seed", "kind", "sources", "crashes")]
            part = ("--work", str(first), str(end - first), str(folder))
            done = subprocess.run((*COMMAND, *flags, *part), cwd=ROOT, check=False)
            if not (folder / "number").exists():
                raise SystemExit("no input was read: what stands above is not of an input")
            number, kind = (folder / "number").read_text().split()
            with self.lock:
                if (folder / "tally").exists():
                    self.tally.add(json.loads((folder / "tally").read_text()))
            if done.returncode == 0:
                return
            if done.returncode in STOPPED:
                raise SystemExit("stopped from outside: no input did that")
            content = (folder / "input").read_bytes()
            kept = keep(kind, self.args.seed, int(number), content, Path(self.args.crashes))
            print(f"\ninput {number} ended with {done.returncode}: kept {kept}", flush=True)
            first = int(number) + 1

    def run(self) -> None:
        """Judge all inputs, telling how many are done and how long the rest will take."""
        places = [self.folder / f"place-{place}" for place in range(self.args.jobs)]
        for place in places:
            place.mkdir()
        free = list(places)
        first, end = self.args.first, self.args.first + self.args.inputs
        size = min(AT_ONCE, -(-self.args.inputs // self.args.jobs))

        def one(start: int) -> None:
            with self.lock:
                folder = free.pop()
            try:
                self.chunk(start, min(size, end - start), folder)
            finally:
                with self.lock:
                    free.append(folder)

        begun = time.monotonic()
        with ThreadPoolExecutor(self.args.jobs) as pool:
            futures = [pool.submit(one, start) for start in range(first, end, size)]
            while not all(future.done() for future in futures):
                time.sleep(TOLD_EVERY_S if self.args.inputs > AT_ONCE else 1)
                self._tell(places, time.monotonic() - begun)
            for future in futures:
                future.result()

    def _tell(self, places: list[Path], seconds: float) -> None:
        done = self.tally.inputs
        for place in places:
            tally = place / "tally"
            if tally.exists():
                with_those = json.loads(tally.read_text() or '{"outcomes": {}}')["outcomes"]
                done += sum(sum(found.values()) for found in with_those.values())
        done = min(done, self.args.inputs)
        left = seconds / done * (self.args.inputs - done) / 60 if done else 0
        print(
            f"\r{done:,} of {self.args.inputs:,} inputs, {self.crashes} crashes, "
            f"{seconds / 60:.1f} min, {left:.1f} min left    ",
            end="",
            flush=True,
        )


def parser() -> argparse.ArgumentParser:
    """The flags of this program."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--inputs", type=int, default=200_000)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--first", type=int, default=0, help="the number of the first input")
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    made.add_argument("--kind", default="", help="inputs of one kind only")
    made.add_argument("--crashes", default=str(CRASHES), help="where inputs that break are kept")
    made.add_argument("--sources", default="", help=argparse.SUPPRESS)
    made.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    return made


def main() -> int:
    args = parser().parse_args()
    if args.work is not None:
        work(args, int(args.work[0]), int(args.work[1]), Path(args.work[2]))
        return 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="labs-fuzz-") as folder:
        args.sources = str(Path(folder) / "sources")
        hostile_inputs.collect(Path(args.sources))
        fuzzing = Fuzzing(args, Path(folder))
        fuzzing.run()
    tally = fuzzing.tally
    print()
    print("\n".join(tally.lines()))
    print(
        f"{tally.inputs:,} inputs, {fuzzing.crashes} crashes, at most {tally.peak_mib} MiB, "
        f"{(time.monotonic() - begun) / 60:.1f} min"
    )
    return 1 if fuzzing.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
