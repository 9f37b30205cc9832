"""The engine that performs runs on the workers of a dask scheduler.

Dask schedules runs, retries them, and replaces lost workers. This module only defines the task
(`labs.batches.remote`) and verifies what is returned (`labs.batches.keep`). Returned runs are
bytes, which are read with the limits for packed files from untrusted sources. That does not protect
the client from a hostile worker or scheduler, because dask unpickles whatever they send, which can
execute any code here.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from distributed import KilledWorker
from distributed.cfexecutor import ClientExecutor

from labs.batches import remote
from labs.batches.keep import keep, received
from labs.batches.parcels import of_kernel
from labs.drive.record.seal import canonical
from labs.errors import BadInput, Damaged, LabError, Missing, RunFailed
from labs.launch.engine import Job, Lost, Say, failed_run
from labs.launch.plan import Planned
from labs.read.runs.run import Run

RETRIES = 2
LOG = "distributed"
LOOK_S = 5.0
GONE_S = 30.0
"""For this long no worker that can perform the runs is connected before it is reported."""
STORED = "labs-stored"
"""The key of the scheduler's metadata that lists the kernels and the code that it has."""
Tell = Callable[[str], None]


def tell_nobody(line: str) -> None:
    """Discard a line."""


class DaskEngine:
    """Performs runs on the workers of a dask scheduler (an `Engine` of `labs.launch.engine`).

    `dashboard` is the URL of its pages. `others` has the keys of runs that a worker performed with
    its own programs (`any_inputs`), by planned key.
    """

    def __init__(self, client: Any, *, any_inputs: bool, real_time: bool, tell: Tell) -> None:
        self._client = client
        self._any_inputs = any_inputs
        self._real_time = real_time
        self._tell = tell
        self._name = f"labs-{secrets.token_hex(4)}"
        self._needs: dict[str, remote.Task] = {}
        self._say: dict[str, Say] = {}
        self._told: set[str] = set()
        self._connection = client.scheduler_comm
        self._looked_s = self._seen_s = time.monotonic()
        self._waiting = False
        self.address = str(client.scheduler_info(n_workers=0)["address"])
        self.dashboard = _dashboard(str(client.dashboard_link))
        self.others: dict[str, str] = {}
        one_at_a_time = {remote.REAL_TIME: 1} if real_time else {}
        self.executor: concurrent.futures.Executor = CompletingExecutor(
            client, pure=False, retries=RETRIES, resources={self._name: 1, **one_at_a_time}
        )
        client._stream_handlers["task-erred"] = self._on_error
        client.subscribe_topic(self._name, self._on_event)

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Let all workers compare their equipment with these runs and fetch what they lack.

        Reports each worker that is left out in one line, with the reason. BadInput for a testbed
        that was not requested; Missing if no worker can perform the runs, or if the scheduler has
        a different version of the lab; Lost if it cannot be reached.
        """
        self._check_connection()
        new = {}
        for job in jobs:
            self._check_testbed(job.planned)
            task = remote.task_of(job.planned)
            if task.need not in self._needs and task.need not in new:
                new[task.need] = task
                self._store(job)
        if not new:
            return
        self._check_scheduler(next(iter(new.values())))
        needs = self._needs | new
        station = remote.Station(
            self._name,
            tuple(needs.values()),
            any_inputs=self._any_inputs,
            real_time=self._real_time,
        )
        with _reached(self.address):
            with _except_of_workers():
                self._client.register_plugin(station, name=self._name)
            reports = self._client.run(remote.report, self._name, on_error="return")
        self._judge({str(worker): _differences(report) for worker, report in reports.items()})
        self._needs = needs
        self._seen_s = time.monotonic()

    def check(self) -> None:
        """Lost if the connection was lost; report once that all workers have disappeared."""
        self._check_connection()
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        workers = self._client.scheduler_info().get("workers", {})
        if any(worker["resources"].get(self._name) for worker in workers.values()):
            self._seen_s, self._waiting = now_s, False
        elif now_s - self._seen_s >= GONE_S:
            self._wait_for_workers()

    def call(self, job: Job, say: Say) -> tuple[Callable[..., bytes], tuple[Any, ...]]:
        """The run as a task. Only its inputs are sent with it."""
        self._check_connection()
        self._say[job.planned.key] = say
        return remote.perform, (self._name, remote.task_of(job.planned))

    def accept(self, job: Job, done: concurrent.futures.Future[bytes]) -> str:
        """Verify and keep the run that a worker returned; MADE or EXISTS.

        RunFailed if the run failed or its workers died; Lost if the scheduler was lost; Damaged if
        the returned run is not the planned one.
        """
        planned = job.planned
        say = self._say.pop(planned.key, tell_nobody)
        packed = result_of(f"{planned.lab.name} {planned.title}", self.address, done)
        with failed_run(planned), received(packed, job.opened.folder) as run:
            if run.key != planned.key:
                self._check_other(planned, run)
                self.others[planned.key] = run.key
                say(f"performed with different programs, and stored as {run.name}")
            return keep(run, job.opened, title=planned.title, say=say, fresh=job.fresh)

    def end(self) -> None:
        """Withdraw from the workers, and end the runs that they still perform for this engine."""
        with suppress(OSError), _except_of_workers():
            if self._client.status == "running":
                self._client.run(remote.end, self._name, on_error="ignore")
                self._client.unregister_worker_plugin(self._name)

    def _check_connection(self) -> None:
        """Lost if the connection was lost, even if dask has connected again: it cancels all runs
        then, but never completes the future of a run whose result is in transit."""
        client = self._client
        if client.status != "running" or client.scheduler_comm is not self._connection:
            raise _lost(self.address)

    def _check_scheduler(self, task: remote.Task) -> None:
        """Missing if the scheduler cannot read tasks, because it lacks this version of the lab."""
        with _reached(self.address):
            try:
                self._client.run_on_scheduler(remote.need_of, task)
            except OSError:
                raise
            except Exception as error:
                raise Missing(
                    f"the scheduler {self.address} does not have this version of the lab "
                    f"({first_line(error)}). Start it where the same version is installed"
                ) from None

    def _check_testbed(self, planned: Planned) -> None:
        testbed = planned.inputs["testbed"]
        if planned.machines:
            raise BadInput(
                "the testbed vagrant cannot be used on a cluster. Use the testbed virtual, or omit "
                "--scheduler and --cluster"
            )
        if self._real_time != (planned.kernel is None):
            raise BadInput(
                f"the testbed {testbed} was not requested for this cluster. Name it with --testbed"
            )

    def _store(self, job: Job) -> None:
        """Store the kernel and the code of a run with the scheduler, unless it has them."""
        planned = job.planned
        parcels: dict[str, Callable[[], Mapping[str, Any]]] = {
            planned.inputs["code"]: lambda: dict(job.driving)
        }
        if kernel := planned.kernel:
            parcels[kernel.sha256] = lambda: of_kernel(kernel)
        with _reached(self.address):
            there = self._client.get_metadata([STORED], {})
            for digest, parcel in parcels.items():
                if digest not in there:
                    self._client.set_metadata([remote.PARCELS, digest], parcel())
                    self._client.set_metadata([STORED, digest], True)

    def _judge(self, differing: Mapping[str, Sequence[str]]) -> None:
        """Report the workers that are left out; Missing if all are."""
        unfit = {worker: differs for worker, differs in differing.items() if differs}
        for worker, differs in unfit.items():
            self._leave_out(worker, differs)
        if differing and len(unfit) == len(differing):
            reasons = dict.fromkeys("; ".join(differs) for differs in unfit.values())
            raise Missing(
                f"none of the {len(differing)} workers of {self.address} can perform these runs: "
                f"{' | '.join(reasons)}. Install the same versions there, or use --any-inputs"
            )
        if not differing:
            self._wait_for_workers()

    def _wait_for_workers(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._tell(
                f"waiting for workers: none that can perform these runs is connected to "
                f"{self.address}"
            )

    def _leave_out(self, worker: str, differs: Sequence[str]) -> None:
        line = f"worker {worker} is left out: {'; '.join(differs)}"
        if line not in self._told:
            self._told.add(line)
            self._tell(line)

    def _on_error(self, key: Any, exception: Any, traceback: Any) -> None:
        """Handle an error of a task without its traceback. Dask drops an error that it cannot
        unpickle, such as one with a very deep traceback, and its run would never end."""
        try:
            self._client._handle_task_erred(key, exception)
        except Exception as error:
            self._client._handle_task_erred(key, RunFailed(f"its error cannot be read ({error})"))

    def _on_event(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Handle a line about a run or a worker that is left out, in the thread of the client."""
        message = event[1]
        if "differs" in message:
            self._leave_out(str(message["worker"]), [str(reason) for reason in message["differs"]])
        elif say := self._say.get(str(message.get("run"))):
            say(str(message.get("line")))

    def _check_other(self, planned: Planned, run: Run) -> None:
        """Damaged for a run that differs from the planned one in more than is permitted."""

        def fixed(inputs: Mapping[str, Any]) -> bytes:
            return canonical(
                {name: value for name, value in inputs.items() if name not in remote.OWN}
            )

        if not self._any_inputs or fixed(run.inputs) != fixed(planned.inputs):
            raise Damaged(
                f"{planned.lab.name} {planned.title}: a worker returned the run {run.name}, "
                "whose inputs differ from the planned ones. Run again"
            )


class CompletingExecutor(ClientExecutor):
    """Dask's executor, except that a future also completes if its result cannot be unpickled."""

    def __init__(self, client: Any, **how: Any) -> None:
        super().__init__(client, **how)  # type: ignore[no-untyped-call]
        self._reading = asyncio.Lock()

    def _wrap_future(self, future: Any) -> concurrent.futures.Future[Any]:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def cancel(done: concurrent.futures.Future[Any]) -> None:
            if done.cancelled() and not future.cancelled():
                future.cancel()

        done.add_done_callback(cancel)
        self._client.loop.add_callback(self._complete, future, done)
        return done

    async def _complete(self, future: Any, done: concurrent.futures.Future[Any]) -> None:
        """Pass on the outcome of dask's future, unless it is no longer wanted. After a loss of the
        connection nothing is passed on, because that concerns all runs."""
        await future._state.wait()
        with suppress(concurrent.futures.InvalidStateError):
            try:
                async with self._reading:  # read together, one bad result would spoil the others
                    result = await future._result()
            except concurrent.futures.CancelledError:
                done.cancel()
                done.set_running_or_notify_cancel()
            except Exception as error:
                with suppress(OSError):
                    await self._client.scheduler.identity(n_workers=0)
                    done.set_exception(error)
            else:
                done.set_result(result)


def result_of(name: str, address: str, done: concurrent.futures.Future[bytes]) -> bytes:
    """The return value of a task. Errors of workers and of dask become a LabError in one line;
    Damaged if it is not bytes."""
    try:
        packed = done.result()
    except LabError:
        raise
    except concurrent.futures.CancelledError:
        raise _lost(address) from None
    except KilledWorker as error:
        raise RunFailed(
            f"{name}: {error.allowed_failures + 1} workers died while performing it, most recently "
            f"{error.last_worker.address}. Read its log, then run again"
        ) from None
    except Exception as error:
        raise RunFailed(f"{name}: {type(error).__name__}: {error}. Run again") from error
    if not isinstance(packed, bytes):
        raise Damaged(
            f"{name}: a worker returned {type(packed).__name__} instead of bytes. Run again"
        )
    return packed


def _lost(address: str) -> Lost:
    return Lost(
        f"the connection to {address} was lost. Complete runs are kept. Run again when the "
        "scheduler is available"
    )


def first_line(error: Exception) -> str:
    """The first line of an error's text, or the name of its class if it has none."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


@contextmanager
def _reached(address: str) -> Iterator[None]:
    """Lost if the scheduler can no longer be reached."""
    try:
        yield
    except OSError:
        raise _lost(address) from None


def _dashboard(link: str) -> str:
    """The page with charts; without bokeh, the page with tables, which every scheduler has."""
    return link if find_spec("bokeh") else link.removesuffix("status") + "info/main/workers.html"


@contextmanager
def _except_of_workers() -> Iterator[None]:
    """Ignore errors of single workers, such as one without the package, because all others have
    received the message and each is queried afterwards. An OSError concerns the connection."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        logging.getLogger(LOG).debug("%s", error)


def _differences(report: object) -> Sequence[str]:
    """What a worker reported. An error means that the worker lacks this version of the lab."""
    if isinstance(report, Exception):
        return (f"it does not have this version of the lab ({report})",)
    return [str(reason) for reason in report] if isinstance(report, tuple | list) else ()
