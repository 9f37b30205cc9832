"""Schedulers that cannot be reached, and what dask reports of a run that failed."""

from __future__ import annotations

import importlib
import sys
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import KilledWorker

from labs.batches.cluster import connect
from labs.batches.dask_engine import result_of
from labs.errors import BadInput, Damaged, LabError, Missing, RunFailed
from labs.launch.engine import Lost

WORKER: Any = SimpleNamespace(address="tcp://127.0.0.1:40001")


@pytest.mark.parametrize(
    ("scheduler", "cluster"),
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
def test_connect_refuses_another_address(scheduler: str | None, cluster: str | None) -> None:
    with pytest.raises(BadInput), connect(scheduler, cluster):
        pass


def test_connect_says_in_one_line_that_no_scheduler_answers() -> None:
    with (
        pytest.raises(Missing, match=r"127\.0\.0\.1:1 ") as raised,
        connect("tcp://127.0.0.1:1", None),
    ):
        pass
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("error", "kind", "phrase"),
    [
        (Missing("a run needs 500 MiB"), Missing, "500 MiB"),
        (KilledWorker("perform-1", WORKER, 3), RunFailed, "4 workers died"),
        (OSError("broken\npipe"), RunFailed, "OSError"),
    ],
)
def test_result_of_gives_every_error_in_one_line(
    error: Exception, kind: type[LabError], phrase: str
) -> None:
    done: Future[bytes] = Future()
    done.set_exception(error)
    with pytest.raises(kind, match=phrase) as raised:
        result_of("nagle off", "tcp://127.0.0.1:8786", done)
    assert type(raised.value) is kind and "\n" not in str(raised.value)


@pytest.mark.parametrize("returned", [None, "a run", 7, object(), [b"x"]])
def test_result_of_refuses_what_is_not_bytes(returned: Any) -> None:
    done: Future[Any] = Future()
    done.set_result(returned)
    with pytest.raises(Damaged):
        result_of("nagle off", "tcp://127.0.0.1:8786", done)


def test_result_of_says_that_the_connection_was_lost() -> None:
    done: Future[bytes] = Future()
    done.cancel()
    done.set_running_or_notify_cancel()
    with pytest.raises(Lost, match=r"tcp://127\.0\.0\.1:8786 was lost"):
        result_of("nagle off", "tcp://127.0.0.1:8786", done)


def test_import_without_dask_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "labs.batches.cluster")
    with pytest.raises(Missing, match=r"\[cluster\]"):
        importlib.import_module("labs.batches.cluster")
