"""Schedulers that cannot be reached, and what workers return instead of a run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labs.batches import cluster
from labs.batches.cluster import connect
from labs.catalog import find
from labs.errors import BadInput, Damaged, LabError, Missing, RunFailed
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch.launch import perform
from labs.launch.plan import Planned, plan
from labs.launch.wanted import Lost, Opened, Wanted
from labs.read.runs.archive import pack
from tests.run_folders import make_run


@pytest.mark.parametrize(
    ("scheduler", "processes"),
    [
        (None, None),
        ("tcp://127.0.0.1:8786", "local:2"),
        ("127.0.0.1:8786", None),
        ("http://127.0.0.1:8786", None),
        ("tcp://127.0.0.1", None),
        (None, "local:0"),
        (None, "local:"),
        (None, "slurm:4"),
    ],
)
def test_connect_refuses_another_address(scheduler: str | None, processes: str | None) -> None:
    with pytest.raises(BadInput), connect(scheduler, processes):
        pass


def test_connect_says_in_one_line_that_no_scheduler_answers() -> None:
    with (
        pytest.raises(Missing, match=r"127\.0\.0\.1:1 ") as raised,
        connect("tcp://127.0.0.1:1", None),
    ):
        pass
    assert "\n" not in str(raised.value)


class Worker:
    """A client of dask whose worker `a` returns one value for every run."""

    status, scheduler_comm, dashboard_link = "running", None, "http://127.0.0.1/status"

    def __init__(self, returned: object, threads: dict[str, int] | None = None) -> None:
        self.returned, self.threads = returned, {"a": 1} if threads is None else threads
        self.loop = SimpleNamespace(asyncio_loop=asyncio.new_event_loop())
        threading.Thread(target=self.loop.asyncio_loop.run_forever, daemon=True).start()

    def scheduler_info(self, n_workers: int) -> dict[str, str]:
        return {"address": "tcp://127.0.0.1:8786"}

    def subscribe_topic(self, name: str, handler: object) -> None:
        """No worker reports anything."""

    def nthreads(self) -> dict[str, int]:
        return self.threads

    def submit(self, function: object, *arguments: object, **how: object) -> Any:
        async def result() -> object:
            if isinstance(self.returned, BaseException):
                raise self.returned
            return self.returned

        return SimpleNamespace(_result=result, release=lambda: None)


@pytest.fixture(scope="module")
def planned() -> tuple[Planned, ...]:
    return plan(find("nagle"), Nagle(testbed="namespaces", size="full", only="off"))


class Workers(Worker):
    """Of two workers, `b` lacks what the first run needs, once; `a` gives an error of the run."""

    def __init__(self) -> None:
        super().__init__(("RunFailed", "it ended"), {"a": 1, "b": 2})

    def submit(self, function: object, *arguments: object, **how: Any) -> Any:
        self.returned = (RunFailed if how["workers"] == ["a"] else Missing).__name__, "for now"
        return super().submit(function, *arguments, **how)


def performed(worker: Worker, planned: tuple[Planned, ...], runs: Path) -> dict[str, LabError]:
    engine = cluster.DaskEngine(worker, tell=lambda line: None)
    return perform(planned, Opened(runs), Wanted(engine=engine, keep_going=True))


@pytest.mark.parametrize(
    ("returned", "kind", "phrase"),
    [
        (("Missing", "a run needs 500 MiB"), Missing, "500 MiB"),
        (("RunFailed", "it ended"), RunFailed, "it ended"),
        (MemoryError("no more"), RunFailed, "MemoryError: no more"),
        (("an unknown class", "it ended"), RunFailed, "it ended"),
        (None, Damaged, "NoneType"),
        ("a run", Damaged, "str"),
        (7, Damaged, "int"),
        ([b"x"], Damaged, "list"),
        (b"x", Damaged, ""),
    ],
)
def test_a_run_fails_by_what_its_worker_returns(
    returned: object,
    kind: type[LabError],
    phrase: str,
    planned: tuple[Planned, ...],
    tmp_path: Path,
) -> None:
    (error,) = performed(Worker(returned), planned, tmp_path).values()
    assert type(error) is kind and phrase in str(error) and "\n" not in str(error)


def test_another_run_than_the_planned_one_is_damaged(
    planned: tuple[Planned, ...], tmp_path: Path
) -> None:
    pack(make_run(tmp_path / "worker"), tmp_path / "packed.tar.gz", with_host=True)
    worker = Worker((tmp_path / "packed.tar.gz").read_bytes())
    (error,) = performed(worker, planned, tmp_path / "runs").values()
    assert type(error) is Damaged and not list((tmp_path / "runs").glob("*"))


def test_a_worker_that_lacks_what_a_run_needs_is_not_left_out(
    planned: tuple[Planned, ...], tmp_path: Path
) -> None:
    """The run is tried on the other worker, and nobody is told of a worker that is left out."""
    told: list[str] = []
    engine = cluster.DaskEngine(Workers(), tell=told.append)
    runs = Opened(tmp_path)
    failed = perform(planned, runs, Wanted(engine=engine, keep_going=True))
    (error,) = failed.values()
    assert type(error) is RunFailed and (told, engine._left_out, engine._say) == ([], {}, {})


@pytest.mark.parametrize("refusal", [("unfit", "another kernel"), ModuleNotFoundError("labs\nx")])
def test_no_worker_can_perform_the_runs(
    refusal: object, planned: tuple[Planned, ...], tmp_path: Path
) -> None:
    with pytest.raises(
        Missing,
        match=r"none of the 1 workers of .*(another kernel|[(]ModuleNotFoundError: labs[)])",
    ) as raised:
        performed(Worker(refusal), planned, tmp_path)
    assert "\n" not in str(raised.value)


def test_a_lost_connection_ends_the_batch(planned: tuple[Planned, ...], tmp_path: Path) -> None:
    with pytest.raises(Lost, match=r"tcp://127\.0\.0\.1:8786 was lost"):
        performed(Worker(concurrent.futures.CancelledError()), planned, tmp_path)


def test_import_without_dask_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "labs.batches.cluster")
    with pytest.raises(Missing, match=r"\[cluster\]"):
        importlib.import_module("labs.batches.cluster")
