"""Connections to many machines: an existing scheduler of dask.distributed, or local workers.

Schedulers and workers execute any code that they receive: anyone who can connect to their ports can
act as their user. The client is no safer: dask unpickles what a scheduler or a worker sends, so
either can execute any code as the client's user. A worker can also return an invented run that is
correctly sealed, which only `labs verify` finds, by repeating it. Use tls:// with certificates
(`distributed.comm.tls` in dask's configuration), or a network that only trusted users can reach.
Local workers listen on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from labs.errors import BadInput, Missing

try:
    from distributed import Client, LocalCluster, Security, rpc
    from distributed.versions import VersionMismatchWarning

    from labs.batches.dask_engine import DaskEngine, Tell, first_line, tell_nobody
except ImportError as error:
    raise Missing(
        "dask.distributed is not installed. Install it: "
        'pip install "tcp-lab-notebook[cluster]", on each machine'
    ) from error

ADDRESS = re.compile(r"(?:tcp|tls)://\S+:\d+")
LOCAL = re.compile(r"local:([1-9]\d{0,2})")
CONNECT_S = 8
CLOSE_S = 5
HOST = "127.0.0.1"
LOGS = ("distributed", "tornado")


@contextmanager
def connect(
    scheduler: str | None,
    cluster: str | None,
    *,
    any_inputs: bool = False,
    real_time: bool = False,
    tell: Tell = tell_nobody,
) -> Iterator[DaskEngine]:
    """The engine of a scheduler ("tcp://HOST:PORT", "tls://HOST:PORT"), or of local workers
    ("local:4").

    With `any_inputs`, workers whose programs differ are also used. `real_time` is for the testbed
    `namespaces`. `tell` receives a line about each worker that is left out. BadInput for any other
    address; Missing if no scheduler answers there within CONNECT_S.
    """
    if (scheduler is None) == (cluster is None):
        raise BadInput("give either --scheduler ADDRESS or --cluster local:N, not both")
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        address: Any = (
            _checked(scheduler)
            if scheduler is not None
            else stack.enter_context(_local(str(cluster)))
        )
        client = stack.enter_context(_client(address))
        engine = DaskEngine(client, any_inputs=any_inputs, real_time=real_time, tell=tell)
        stack.callback(engine.end)
        yield engine


def _checked(scheduler: str) -> str:
    if ADDRESS.fullmatch(scheduler) is None:
        raise BadInput(
            f'"{scheduler}" is not the address of a scheduler. Allowed: tcp://HOST:PORT or '
            "tls://HOST:PORT, as `dask scheduler` prints it"
        )
    return scheduler


@contextmanager
def _local(cluster: str) -> Iterator[LocalCluster]:
    """Local worker processes, which listen on 127.0.0.1 only."""
    match = LOCAL.fullmatch(cluster)
    if match is None:
        raise BadInput(
            f'unknown cluster "{cluster}". Allowed: local:N, with N from 1 to 999 processes on '
            "this machine. For other machines, start a scheduler and use --scheduler"
        )
    with LocalCluster(
        n_workers=int(match[1]),
        threads_per_worker=1,
        processes=True,
        host=HOST,
        dashboard_address=f"{HOST}:0",
        memory_limit=0,  # guests use memory outside the worker
        silence_logs=logging.CRITICAL,
    ) as started:
        yield started


async def _answers(address: str) -> None:
    """TimeoutError unless a scheduler answers within CONNECT_S. The time limit of dask's Client
    does not apply while a port is silent after it has accepted."""
    security = Security().get_connection_args("client")
    async with asyncio.timeout(CONNECT_S), rpc(address, connection_args=security) as server:
        identity = await server.identity(n_workers=0)
        if identity["type"] != "Scheduler":
            raise ValueError(f"it is a {identity['type']}")


@contextmanager
def _client(address: Any) -> Iterator[Any]:
    try:
        if isinstance(address, str):
            asyncio.run(_answers(address))
        with warnings.catch_warnings():
            # Versions that matter are part of a run's inputs, and each worker compares them.
            warnings.simplefilter("ignore", VersionMismatchWarning)
            client = Client(address, timeout=CONNECT_S)
    except Exception as error:  # whatever answers there may send any bytes
        raise Missing(
            f"no scheduler answers at {address} ({first_line(error)}). Start "
            "one (dask scheduler), or correct the address or the certificates"
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=CLOSE_S)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence dask and its event loop. The user sees what they log as one-line errors."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in LOGS]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
