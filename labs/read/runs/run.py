"""One run, opened: what was requested, what was done, and its raw output as tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from labs.drive.record.run_folder import STUDIES
from labs.drive.record.seal import RUN, Seal, key, read_seal, verify
from labs.drive.record.stored_files import (
    AGAIN,
    RUN_SCHEMAS,
    VERSION,
    check_version,
    read_bytes,
    read_json,
)
from labs.drive.testbeds import OF_RUNS, Kind
from labs.errors import BadInput, Damaged
from labs.guest.condition import Condition, from_json, read_settings
from labs.guest.outcome import Buffer, Command
from labs.guest.tc import Queue, queues
from labs.guest.testbed.link import LinkReport, Measured, report_from_json
from labs.guest.units import SECOND_NS
from labs.read.display.format import command_lines
from labs.read.parse.http_clients import Httping, Wget, httping, wget
from labs.read.parse.proc import changes, counters
from labs.read.parse.ss import blocks
from labs.read.runs import raw_files
from labs.read.runs.archive import is_packed, unpacked
from labs.read.runs.raw_files import as_text
from labs.read.runs.schemas import held_to, upgraded

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.runs.sample_table import Column

PASTED = frozenset({"ip", "tc", "sysctl", "ethtool", "nft"})
READS = frozenset({"show", "-s", "-V", "--version", "-n"})
READING = {
    "sysctl": frozenset({"-n", "-a"}),
    "ethtool": frozenset({"-i", "-k", "-l", "-c", "-S", "--version"}),
    "nft": frozenset({"list", "--version"}),
}
"""The words with which these commands only read."""
KEPT_SAMPLES_BYTES = 1 << 20
"""Samples of at most this size are kept as a table: each chart and text of a run reads them."""
KEPT_RUNS = 4
"""Of how many runs what is computed from raw output is kept: texts and charts share it."""
T = TypeVar("T")
_opened: MutableMapping[tuple[Path, Path, str], Run] = WeakValueDictionary()
"""Open runs by path as given, absolute path and digest."""


@dataclass(frozen=True)
class RunningKernel:
    """The kernel of a run: its release as it said it, and HZ where that is known."""

    release: str
    hz: int | None


@dataclass(frozen=True, eq=False)
class Run:
    """A sealed run.

    `record` is its run.json in the form of schema 2 (`labs/drive/record/run.schema.json`). Times
    are nanoseconds of the hosts' CLOCK_REALTIME. `digest` is equal for two runs that are the same
    byte for byte, `key` for two runs with the same inputs.
    """

    path: Path
    seal: Seal = field(repr=False)
    record: Mapping[str, Any] = field(repr=False)

    @property
    def lab(self) -> str:
        return str(self.record["lab"])

    @property
    def condition(self) -> str:
        return str(self.record["condition"])

    @property
    def is_virtual(self) -> bool:
        """Whether it was performed in virtual time, so that it repeats to the byte."""
        return self.where.virtual_time and self.inputs["kernel"] is not None

    @property
    def key(self) -> str:
        return str(self.record["key"])

    @property
    def digest(self) -> str:
        return self.seal.digest

    @property
    def name(self) -> str:
        """The name of its folder, which is LAB-CONDITION-KEY12."""
        return self.path.name

    @property
    def inputs(self) -> Mapping[str, Any]:
        """What the key was computed from, in the form of schema 2."""
        return dict(self.record["inputs"])

    @property
    def testbed(self) -> str:
        return str(self.record["inputs"]["testbed"])

    @property
    def where(self) -> Kind:
        """The testbed as a value."""
        return OF_RUNS[self.testbed]

    @cached_property
    def condition_asked(self) -> Condition:
        """The condition that was requested: its link, sysctls and settings."""
        return from_json(self.record["inputs"]["condition"])

    def settings_as(self, cls: type[T]) -> T:
        """The settings of the condition as a lab's dataclass `Settings`; Damaged for a setting of
        another type than its field."""
        return read_settings(cls, self.record["inputs"]["condition"]["settings"])

    @cached_property
    def link(self) -> LinkReport:
        """The link as requested and as measured, and what is wrong with it."""
        return report_from_json(self.record["link"])

    @cached_property
    def measured(self) -> Measured:
        """The RTT and the rate measured before the run: of the path of its flows, from server to
        client, or of its link if it has no path. With a path, the link is only the wires."""
        has_path = "path" in self.condition_asked.plan and "path.json" in self.seal.files
        return self.read("path.json", raw_files.PATH_DOWN) if has_path else self.link.measured

    @cached_property
    def kernel(self) -> RunningKernel:
        """The kernel that ran."""
        return RunningKernel(self.record["kernel"]["release"], self.record["kernel"].get("hz"))

    @property
    def tools(self) -> Mapping[str, str]:
        """The line in which each tool said its version."""
        return dict(self.record["tools"])

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """Every command issued, in order."""
        return tuple(
            Command(command["at_ns"], command["host"], tuple(command["argv"]), command["exit"])
            for command in self.record["commands"]
        )

    @property
    def sysctls(self) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        """host -> `before`, `after` -> name -> value."""
        return dict(self.record["sysctls"])

    def sysctl(self, host: str, name: str) -> str:
        """Return a host's sysctl after the run began; Damaged if the run does not say it."""
        values: Mapping[str, str] = self.record["sysctls"].get(host, {}).get("after", {})
        if name not in values:
            raise Damaged(f"{self.path / RUN} does not say {name} of the {host}. {AGAIN}")
        return values[name]

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """The socket buffers that programs requested, and what was granted."""
        return tuple(Buffer(**buffer) for buffer in self.record["buffers"])

    @cached_property
    def moments(self) -> Mapping[str, int]:
        """The named moments, in ns; of a name that was given twice, the first."""
        return {mark["name"]: mark["at_ns"] for mark in reversed(self.record["marks"])}

    @property
    def repetition(self) -> int | None:
        """Which of the equal runs in real time it is, from 1; None in virtual time."""
        number: int | None = self.record["inputs"].get("repetition")
        return number

    @property
    def ended(self) -> str:
        """`complete`, or `limit` for a run that was ended by its time limit."""
        return str(self.record["ended"])

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that left files here."""
        return tuple(sorted({name.split("/")[0] for name in self.seal.files if "/" in name}))

    def file(self, name: str) -> Path:
        """Return the path of a file of the run; BadInput, with those there are, if it has none."""
        if name in self.seal.files:
            return self.path / name
        ending = name.rpartition("/")[2]
        alike = [have for have in self.seal.files if have.rpartition("/")[2] == ending]
        there = ", ".join(sorted(alike)) or f"none named {ending}"
        raise BadInput(f"the run {self.name} has no {name}; it has {there}")

    def text(self, name: str) -> str:
        """Return a text file of the run."""
        return read_bytes(self.file(name)).decode("utf-8", "replace")

    def read(self, name: str, reader: raw_files.Reader[T]) -> T:
        """Return what a reader makes of a file of the run; Damaged if it refuses it."""
        return raw_files.read(self.file(name), reader)

    def samples(self, host: str) -> DataFrame:
        """Return what the sampler recorded: one row per socket and moment, in its order.

        Columns: `t_s` (seconds since the mark "start"), `at_ns`, and those of
        `labs.read.runs.sample_table`.
        """
        small = self.file(f"{host}/samples.bin").stat().st_size <= KEPT_SAMPLES_BYTES
        return (_samples if small else _samples.__wrapped__)(self, host)

    def ss(self, host: str) -> DataFrame:
        """Return what `ss` printed: one row per socket and moment.

        Columns: `t_s`, `at_ns`, `mark` ("" where the moment was not marked), and the fields of
        `labs.read.parse.ss.Socket.flat`.
        """
        return self._table(
            [
                {"at_ns": block.at_ns, "mark": block.mark, **socket.flat()}
                for block in self.read(f"{host}/ss.txt", as_text(blocks))
                for socket in block.sockets
            ]
        )

    def nstat(self, host: str, when: str = "delta") -> dict[str, int]:
        """Return a host's counters by name: `before` or `after` the run, or the `delta`."""
        if when == "delta":
            return changes(self.nstat(host, "before"), self.nstat(host, "after"))
        moment = _checked(when, ("before", "after", "delta"))
        return self.read(f"{host}/nstat-{moment}.txt", as_text(counters))

    def tc(self, host: str, when: str = "after") -> tuple[Queue, ...]:
        """Return the qdiscs and classes of a host's device, `before` or `after` the run."""
        moment = _checked(when, ("before", "after"))
        return self.read(f"{host}/tc-{moment}.txt", as_text(queues))

    def fetch(self) -> dict[str, Any] | None:
        """Return what the discarding client wrote, or None if another client fetched."""
        name = "client/fetch.json"
        return self.read(name, raw_files.FETCH) if name in self.seal.files else None

    def wget(self) -> Wget | None:
        """Return what wget logged, or None if another client fetched."""
        name = "client/wget.txt"
        return self.read(name, as_text(wget)) if name in self.seal.files else None

    def httping(self) -> Httping | None:
        """Return what httping printed, or None for a run that did not start it."""
        name = "client/httping.txt"
        return self.read(name, as_text(httping)) if name in self.seal.files else None

    def capture(self, host: str) -> Path | None:
        """Return the path of a host's capture, or None if the run was made without."""
        name = f"{host}/capture.pcap"
        return self.path / name if name in self.seal.files else None

    def commands_text(self) -> str:
        """Return the recorded lines that changed something, host by host, to be pasted."""
        return "\n".join(
            command_lines(
                (command.host, command.argv)
                for command in self.commands
                if _is_pasted(command.argv)
            )
        )

    def _table(self, content: list[dict[str, Any]] | dict[str, Column]) -> DataFrame:
        """A table of rows, or of columns by name."""
        from pandas import DataFrame  # noqa: PLC0415  making runs needs only Python

        table = DataFrame(content if content else {"at_ns": []})
        table.insert(0, "t_s", (table["at_ns"] - self.moments["start"]) / SECOND_NS)
        return table


@lru_cache(maxsize=2 * KEPT_RUNS)
def _samples(run: Run, host: str) -> DataFrame:
    from labs.read.runs.sample_table import sample_columns  # noqa: PLC0415  needs numpy

    return run._table(run.read(f"{host}/samples.bin", sample_columns))


def open_run(path: str | Path, hashed: Seal | None = None) -> Run:
    """Open a run folder, or a packed file that holds one run, and verify it.

    Opening a folder again returns the same object while it is referenced and its files still match
    the seal, and results computed from it are reused: do not change what a run returns. If the
    files have just been `hashed` with the result that the seal says, they are not hashed again.

    Raises BadInput if there is no run, or one of another schema; Damaged if it was changed after
    it was sealed or does not fit the schema.
    """
    folder = Path(path)
    if is_packed(folder):
        folder = _only_run(folder)
    elif folder.is_dir() and (folder / STUDIES).is_dir():
        raise BadInput(
            f"{folder} contains runs, but is not a run. Name one of them, as "
            f"`labs runs list {folder}` shows them"
        )
    seal = read_seal(folder)
    version = _version(folder)
    if seal != hashed:
        seal = verify(folder)
    place = (folder, folder.absolute(), seal.digest)
    run = _opened.get(place)
    if run is None:
        run = _opened[place] = _read(folder, version, seal)
    return run


def keep_opened() -> Collection[Run]:
    """Keep all runs that this process opens from now on, in the collection that is returned."""
    global _opened
    kept = dict(_opened)
    _opened = kept
    return kept.values()


def _read(folder: Path, version: int, seal: Seal) -> Run:
    record = held_to(RUN_SCHEMAS[version], read_json(folder / RUN), folder / RUN)
    inputs = record["inputs"]
    if key(inputs) != record["key"] or (inputs["lab"], inputs["condition"]["name"]) != (
        record["lab"],
        record["condition"],
    ):
        raise Damaged(
            f"{folder / RUN}: its key, lab or condition is not that of its inputs; "
            "repeat the run with --fresh"
        )
    return Run(folder, seal, upgraded(record) if version < VERSION else record)


def _version(folder: Path) -> int:
    """The schema version of run.json; the newest for a file that cannot be read, which is not as
    it was sealed."""
    try:
        schema = read_json(folder / RUN).get("schema", VERSION)
    except Damaged:
        return VERSION
    return check_version(schema, f"{folder}", *RUN_SCHEMAS)


def _only_run(packed: Path) -> Path:
    runs = unpacked(packed)
    folders = sorted(entry.parent for entry in runs.glob(f"*/{RUN}"))
    if len(folders) == 1:
        return folders[0]
    names = ", ".join(run.name for run in folders) or "none"
    raise BadInput(
        f"{packed} holds {len(folders)} runs ({names}); unpack it with tar and name the "
        "folder of one"
    )


def _checked(when: str, allowed: tuple[str, ...]) -> str:
    if when in allowed:
        return when
    raise BadInput(f"{when!r} is not a moment of a run. Allowed: {', '.join(allowed)}")


def _is_pasted(argv: tuple[str, ...]) -> bool:
    return argv[0] in PASTED and not READING.get(argv[0], READS) & set(argv[1:])
