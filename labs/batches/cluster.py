"""Runs on the workers of a dask scheduler, or of local processes.

A task is one run. A worker plans it again with its own kernel, programs and code, and performs it
only if the key is the same; a worker with another installation is left out. A complete run returns
as a packed file, which is verified like one from an untrusted source. That protects nobody from a
hostile worker or scheduler: dask executes and unpickles whatever it receives, on every side.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import re
import secrets
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from operator import methodcaller
from pathlib import Path
from typing import Any

from labs.batches.keep import keep
from labs.catalog import find
from labs.drive.record.seal import key
from labs.drive.testbeds import TESTBEDS
from labs.errors import BRANCHES, BadInput, Damaged, LabError, Missing, RunFailed
from labs.launch import audit
from labs.launch.launch import check_limits, check_system
from labs.launch.make import make_once
from labs.launch.plan import Planned, Planner
from labs.launch.wanted import (
    AUTO,
    Cancelled,
    Job,
    Line,
    Lost,
    Notice,
    Opened,
    Outcome,
    Say,
    Waiting,
    Wanted,
)
from labs.read.display.format import few
from labs.read.runs.archive import pack
from labs.read.runs.compare import changes

try:
    from distributed import Client, LocalCluster, Security, get_worker, rpc
    from distributed.versions import VersionMismatchWarning
except ImportError as error:
    raise Missing(
        "dask.distributed is not installed. Install it: "
        'pip install "tcp-lab-notebook[cluster]", on each machine'
    ) from error

ADDRESS = re.compile(r"(?:tcp|tls)://\S+:\d+")
LOCAL = re.compile(r"local:([1-9]\d{0,2})")
CONNECT_S, CLOSE_S = 8, 5
HOST = "127.0.0.1"
AT_A_TIME = 400
"""The maximum number of runs in progress, each of which has a thread of the client."""
POLL_S = 0.2
DEATHS = 3
"""If more workers die while performing a run, it fails, because it may be the cause."""
SHOWN = 3
UNFIT, DIED = "unfit", "died"
WITHOUT_THIS_VERSION = (ImportError, SyntaxError, AttributeError, TypeError)
"""What a worker raises that cannot import or call `perform`, which returns its errors."""
LOST = "the connection to {} was lost. Complete runs are kept. Start the scheduler, and run again"
Tell = Callable[[str], None]
Refusal = tuple[str, str]
"""Instead of a run: UNFIT or the name of an error's class, and the reason."""
_real_time = threading.Lock()
"""Held on a worker by a real-time run, because concurrent ones would disturb one another."""


@lru_cache(maxsize=8)
def _station(batch: str, lab: str, testbed: str) -> Planner:
    """The planner of a batch on this worker."""
    check_system()
    return Planner(find(lab), TESTBEDS[testbed])


def perform(batch: str, lab: str, inputs: Mapping[str, Any], boot: str) -> bytes | Refusal:
    """Perform a run on this worker, and return it packed; the client submits this function. `lab`
    is a name, or the path of a file. With `boot` auto, the worker's environment says the mode."""
    try:
        try:
            planned = _station(batch, lab, inputs["testbed"]).again(inputs, lab)
        except LabError as error:  # such as another kernel, or a lab that does not exist here
            return UNFIT, str(error)
        planned = planned.repeated(inputs["repetition"]) if "repetition" in inputs else planned
        if planned.key != key(inputs):
            others = few([change.name for change in changes(inputs, planned.inputs)], SHOWN)
            return UNFIT, f"its installation gives the key {planned.key[:12]}: other {others}"
        if planned.kernel:
            check_limits(planned.inputs["memory_mib"])
        with nullcontext() if planned.kernel else _real_time:
            wanted = Wanted() if boot == AUTO else Wanted(boot=boot)
            return _packed(batch, planned, wanted)
    except (Exception, KeyboardInterrupt) as error:  # the latter would end the worker
        return type(error).__name__, str(error)


def _packed(batch: str, planned: Planned, wanted: Wanted) -> bytes:
    """A run, performed in a temporary folder; it ends at its next line if nobody wants it now."""
    worker = get_worker()
    task = worker.state.tasks[worker.get_current_task()]

    def ended() -> bool:
        return bool(task.state != "executing")

    def say(notice: Notice) -> None:
        if ended():
            raise KeyboardInterrupt
        waits = isinstance(notice, Waiting)
        worker.log_event(batch, {"run": planned.key, "waits": waits, "text": notice.text})

    audited = None if planned.kernel else audit.here()
    with tempfile.TemporaryDirectory(prefix="labs-", dir=worker.local_directory) as folder:
        opened, packed = Opened(Path(folder)), Path(folder, "run.tar.gz")
        make_once(Job(planned, opened, wanted, audited), say, ended)
        pack(Path(folder, planned.name), packed, with_host=True, gzip_level=1)
        return packed.read_bytes()


class DaskEngine:
    """Performs runs on the workers of a scheduler (an `Engine` of `labs.launch.wanted`).

    Each thread of a worker performs one run at a time. `dashboard` lists the workers.
    """

    places = AT_A_TIME

    def __init__(self, client: Any, tell: Tell) -> None:
        self._client, self._connection, self._tell = client, client.scheduler_comm, tell
        self._name = f"labs-{secrets.token_hex(4)}"
        self._say: dict[str, Say] = {}
        self._threads: Mapping[str, int] = {}
        self._busy: Counter[str] = Counter()
        self._left_out: dict[str, str] = {}
        self._changed, self._fit, self._waiting = threading.Condition(), False, False
        self.address = str(client.scheduler_info(n_workers=0)["address"])
        self.dashboard = str(client.dashboard_link).replace("status", "info/main/workers.html")
        client.subscribe_topic(self._name, self._on_line)

    def check(self) -> None:
        """Update the list of connected workers. Lost if the connection to the scheduler was: dask
        reconnects, but no longer knows the runs. Missing if every worker was left out before any
        of them performed a run."""
        client = self._client
        try:
            if client.status != "running" or client.scheduler_comm is not self._connection:
                raise ConnectionError
            threads = dict(client.nthreads())
        except OSError:
            raise Lost(LOST.format(self.address)) from None
        with self._changed:
            self._threads = threads
            self._changed.notify_all()
        if threads.keys() - self._left_out.keys():
            self._waiting = False
        elif threads and not self._fit:
            reasons = " | ".join({self._left_out[worker]: "" for worker in threads})
            raise Missing(
                f"none of the {len(threads)} workers of {self.address} can perform these runs: "
                f"{reasons}. Install the same versions there"
            )
        elif not self._waiting:
            self._waiting = True
            self._tell(f"waiting for workers that can perform these runs at {self.address}")

    def perform(self, job: Job, say: Say, cancelled: Cancelled) -> Outcome:
        """Perform a run on one worker after the other until one returns it; verify and keep it."""
        planned, title = job.planned, f"{job.planned.lab} {job.planned.title}"
        dead: list[str] = []
        lacking: dict[str, str] = {}
        self._say[planned.key] = say
        try:
            while len(dead) <= DEATHS:
                with self._place(lacking, cancelled) as worker:
                    returned = self._returned(job, worker, cancelled)
                match returned:
                    case bytes():
                        self._fit = True
                        return keep(returned, job, say)
                    case (str(kind), str(reason)) if kind == UNFIT:
                        if self._left_out.setdefault(worker, reason) is reason:  # the first time
                            self._tell(f"worker {worker} is left out: {reason}")
                    case (str(kind), str()) if kind == DIED:
                        dead.append(worker)
                    case (str(kind), str(reason)) if kind == Missing.__name__:
                        lacking[worker] = f"{title}: {reason}"
                    case (str(kind), str(reason)) if kind in BRANCHES:
                        raise BRANCHES[kind](reason)
                    case (str(kind), str(reason)):
                        raise RunFailed(f"{title}: {kind}: {reason}. Run again")
                    case _:
                        kind = type(returned).__name__
                        raise Damaged(f"{title}: a worker returned a {kind}. Run again")
        finally:
            del self._say[planned.key]
        died = f"{len(dead)} workers died performing it. Read the log of {dead[-1]}"
        raise RunFailed(f"{title}: {died}")

    @contextmanager
    def _place(self, lacking: Mapping[str, str], cancelled: Cancelled) -> Iterator[str]:
        """Wait for a free thread of a worker, and hold it."""
        with self._changed:
            while not (worker := self._free(lacking)):
                if cancelled():
                    raise KeyboardInterrupt
                self._changed.wait(POLL_S)
            self._busy[worker] += 1
        try:
            yield worker
        finally:
            with self._changed:
                self._busy[worker] -= 1
                self._changed.notify()

    def _free(self, lacking: Mapping[str, str]) -> str:
        """The worker with the most free threads; empty if there is none. Missing if all of them
        lack what a run needs, such as memory."""
        fit = self._threads.keys() - self._left_out.keys()
        if fit and fit <= lacking.keys():
            raise Missing(next(iter(lacking.values())))
        free = [(self._threads[it] - self._busy[it], it) for it in fit - lacking.keys()]
        count, worker = max(free, default=(0, ""))
        return worker if count > 0 else ""

    def _returned(self, job: Job, worker: str, cancelled: Cancelled) -> object:
        """What a worker returns for a run; a Refusal if dask cannot perform it there."""
        planned = job.planned
        lab = str(planned.source.resolve()) if planned.source else planned.lab
        there = {"workers": [worker], "pure": False}
        # By name, because dask ends a worker that cannot unpickle what it receives.
        module = self._client.submit(import_module, __name__, **there)
        call = methodcaller("perform", self._name, lab, planned.inputs, job.wanted.boot)
        future = self._client.submit(call, module, **there)
        loop = self._client.loop.asyncio_loop
        arriving = asyncio.run_coroutine_threadsafe(future._result(), loop)
        try:
            while not concurrent.futures.wait([arriving], POLL_S).done:
                if cancelled():
                    raise KeyboardInterrupt
                if worker not in self._threads:
                    return DIED, worker
            return arriving.result()
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            raise Lost(LOST.format(self.address)) from None
        except WITHOUT_THIS_VERSION as error:
            return UNFIT, f"it does not have this version of the lab ({first_line(error)})"
        except OSError:  # the connection to the worker, or to the scheduler: `check` tells
            with self._changed:
                self._threads = {it: many for it, many in self._threads.items() if it != worker}
            return DIED, worker
        except Exception as error:
            return type(error).__name__, next(iter(str(error).splitlines()), "")
        finally:
            arriving.cancel()
            future.release()

    def _on_line(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Pass on a line about a run, in the thread of dask's client."""
        told = event[1]
        notice = Waiting(told["text"]) if told["waits"] else Line(told["text"])
        self._say.get(told["run"], str)(notice)


def first_line(error: Exception) -> str:
    """The class of an error, and the first line of its text if it has one."""
    lines = [type(error).__name__, *str(error).strip().splitlines()[:1]]
    return ": ".join(lines)


@contextmanager
def connect(
    scheduler: str | None, cluster: str | None, *, tell: Tell = lambda line: None
) -> Iterator[DaskEngine]:
    """The engine of a scheduler ("tcp://HOST:PORT", "tls://HOST:PORT"), or of local workers
    ("local:4"), which listen on 127.0.0.1 only.

    `tell` receives a line about each worker that is left out. BadInput for any other address;
    Missing if no scheduler answers there within CONNECT_S.
    """
    given = scheduler or str(cluster)
    match = (LOCAL if scheduler is None else ADDRESS).fullmatch(given)
    if match is None or (scheduler and cluster):
        raise BadInput(
            f'"{given}" cannot be used. Allowed: either --scheduler with tcp://HOST:PORT or '
            "tls://HOST:PORT, as `dask scheduler` prints it, or --cluster local:N, with N processes"
        )
    with ExitStack() as stack:
        logging.disable(logging.CRITICAL)  # the user sees what dask logs as one-line errors
        stack.callback(logging.disable, logging.NOTSET)
        if cluster:
            how = {"threads_per_worker": 1, "dashboard_address": f"{HOST}:0", "memory_limit": 0}
            given = stack.enter_context(LocalCluster(n_workers=int(match[1]), host=HOST, **how))
        client = _connected(given)
        stack.callback(client.close, timeout=CLOSE_S)
        yield DaskEngine(client, tell)


def _connected(address: Any) -> Client:
    try:
        with warnings.catch_warnings():
            # Versions that matter are part of a run's inputs, and each worker compares them.
            warnings.simplefilter("ignore", VersionMismatchWarning)
            if isinstance(address, str):
                asyncio.run(_check_scheduler(address))
            return Client(address, timeout=CONNECT_S)
    except Exception as error:  # whatever answers there may send any bytes
        raise Missing(
            f"no scheduler answers at {address} ({first_line(error)}). Start "
            "one (dask scheduler), or correct the address or the certificates"
        ) from None


async def _check_scheduler(address: str) -> None:
    """TimeoutError unless a scheduler answers; dask's Client waits for a port that is silent."""
    security = Security().get_connection_args("client")
    async with asyncio.timeout(CONNECT_S), rpc(address, connection_args=security) as server:
        if (await server.identity(n_workers=0))["type"] != "Scheduler":
            raise ValueError("it is no scheduler")
