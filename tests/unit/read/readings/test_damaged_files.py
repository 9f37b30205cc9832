"""Sealed runs whose files a program cannot have written: Damaged, with the name of the file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.drive.record.seal import compute
from labs.errors import Damaged
from labs.guest.host_load import FILE
from labs.read.readings.goodput import download
from labs.read.readings.latency import AB, OWN, latency
from labs.read.runs.run import Run
from labs.read.stats.machines import machines
from tests.real_runs import real
from tests.repeated_runs import machine

FETCH, WGET = "client/fetch.json", "client/wget.txt"
FETCHED = {"connect_ns": 1, "first_byte_ns": 2, "end_ns": 4, "bytes": 9, "timeline": [[3, 5]]}


def with_only(folder: Path, name: str, content: str) -> Run:
    """A run that has this file alone."""
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    return dataclasses.replace(real("both-1gib"), path=folder, seal=compute(folder))


def fetched(**changed: object) -> str:
    return json.dumps({**FETCHED, **changed})


def said(**changed: object) -> str:
    return json.dumps({"client": {**machine(), **changed}})


@pytest.mark.parametrize(
    ("read", "name", "content"),
    [
        (download, FETCH, ""),
        (download, FETCH, "[]"),
        (download, FETCH, "{}"),
        (download, FETCH, "[" * 100_000),
        (download, FETCH, fetched(bytes="9")),
        (download, FETCH, fetched(bytes=-1)),
        (download, FETCH, fetched(end_ns=10**400)),
        (download, FETCH, fetched(first_byte_ns=True)),
        (download, FETCH, fetched(timeline=7)),
        (download, FETCH, fetched(timeline=[[3]])),
        (download, FETCH, fetched(timeline=[[3, "x"]])),
        (download, WGET, "\udcff" * 10),
        (latency, OWN, "{}"),
        (latency, OWN, '{"times_ms": []}'),
        (latency, OWN, '{"times_ms": ["x"]}'),
        (latency, OWN, f'{{"times_ms": [1{"0" * 400}]}}'),
        (latency, AB, "This is ApacheBench, Version 2.3"),
        (machines, FILE, "7"),
        (machines, FILE, '{"client": 7}'),
        (machines, FILE, '{"client": {}}'),
        (machines, FILE, said(before=7)),
        (machines, FILE, said(after={"/proc/loadavg": "", "/proc/stat": "cpu x"})),
        (machines, FILE, said(driver=7)),
    ],
)
def test_readings_name_the_damaged_file(
    read: Callable[[Run], object], name: str, content: str, tmp_path: Path
) -> None:
    with pytest.raises(Damaged) as caught:
        read(with_only(tmp_path / "run", name, content))
    assert name in str(caught.value) and str(caught.value).isprintable()


def test_readings_take_what_is_right(tmp_path: Path) -> None:
    found = download(with_only(tmp_path / "run", FETCH, fetched()))
    assert (found.started_ns, found.timeline) == (1, ((2, 0), (3, 5), (4, 9)))
    assert list(machines(with_only(tmp_path / "other", FILE, said()))) == ["client"]
    assert latency(with_only(tmp_path / "last", OWN, '{"times_ms": [2, 4]}')).mean_ms == 3
