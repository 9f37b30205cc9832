"""Runs on the workers of a dask scheduler: the same bytes as here, whoever is killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from distributed.versions import VersionMismatchWarning, get_versions

from labs.batches import cluster
from labs.batches.cluster import HOST, DaskEngine, connect
from labs.catalog import find
from labs.drive.kernel import programs, store
from labs.drive.record.seal import read_seal
from labs.errors import LabError, Missing
from labs.launch.launch import perform, prepare
from labs.launch.plan import Planned, plan
from labs.launch.wanted import Event, Lost, Opened, Wanted
from labs.read.lab import Lab
from tests import kept_runs
from tests.conftest import DEFAULT_KERNEL
from tests.dask_processes import WITHOUT_LABS, scheduler, started_from, worker

DELAYS_MS = (0.0, 10.0, 20.0)
# For a worker whose `touch` is another program: a byte follows the end of the same ELF file.
OTHER_TOUCH = """
import shutil

def which(name, *words, **given):
    return {touch!r} if name == "touch" else shutil.installed(name, *words, **given)

if not hasattr(shutil, "installed"):  # dask loads this file twice
    shutil.installed, shutil.which = shutil.which, which
"""
# For a scheduler that dies when a client fetches a result.
DIES_IN_TRANSIT = """
import os
import signal

async def gather(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def dask_setup(scheduler):
    scheduler.handlers["gather"] = gather
"""
SIX = len(DELAYS_MS) * 2
STOPPED_S = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that an ordinary user can reach."""
    made = Path(tempfile.mkdtemp(prefix="labs-cluster-", dir="/var/tmp"))
    made.chmod(0o755)
    try:
        yield made
        assert started_from(made) == []
    finally:
        shutil.rmtree(made)


@pytest.fixture
def kernels(folder: Path) -> dict[str, str]:
    """The environment of a worker that has the kernel, which every user can read."""
    kernel = store.find(DEFAULT_KERNEL)
    shutil.copytree(kernel.folder, folder / "kernels" / kernel.sha256)
    for path in (folder / "kernels").rglob("*"):
        path.chmod(0o755)
    return {"LABS_KERNELS": str(folder / "kernels")}


@pytest.fixture(scope="module")
def lab() -> Lab:
    return find("nagle")


def planned_in(lab: Lab, runs: Path, delays_ms: tuple[float, ...] = DELAYS_MS) -> list[Planned]:
    return [
        run
        for delay_ms in delays_ms
        for run in plan(
            lab,
            lab.Parameters(runs=str(runs), only="off,on", requests=100, delay_ms=delay_ms),  # type: ignore[call-arg]
        )
    ]


def digests_here(lab: Lab, runs: Path, delays_ms: tuple[float, ...] = DELAYS_MS) -> dict[str, str]:
    """The digests of the same runs, performed by this process."""
    made = [
        kept_runs.make(
            lab,
            lab.Parameters(runs=str(runs), only="off,on", requests=100, delay_ms=delay_ms),  # type: ignore[call-arg]
        )
        for delay_ms in delays_ms
    ]
    return {run.name: run.digest for outcome in made for run in outcome.runs}


def digests_in(runs: Path) -> dict[str, str]:
    return {path.name: read_seal(path).digest for path in runs.glob("nagle-*")}


def performed(
    planned: list[Planned],
    runs: Path,
    engine: DaskEngine,
    on_line: Callable[[str, str], None] = lambda title, line: None,
) -> tuple[dict[str, LabError], list[str]]:
    """Perform all; the failures, and the lines of all runs."""
    lines: list[str] = []

    def tell(title: str, event: Event) -> None:
        lines.append(str(event))
        on_line(title, str(event))

    prepare(runs)
    return perform(planned, Opened(runs), Wanted(tell=tell, engine=engine, keep_going=True)), lines


def wrong_kernel(home: Path, sha256: str) -> None:
    """A store with a kernel of that name whose program is another."""
    kept = home / "cache" / "labs" / "kernels" / sha256
    shutil.copytree(store.find(DEFAULT_KERNEL).folder, kept)
    with (kept / "linux").open("ab") as file:
        file.write(b"x")


def test_runs_are_those_of_this_machine_though_a_worker_is_killed(
    lab: Lab, folder: Path, kernels: dict[str, str], tmp_path: Path
) -> None:
    """Of three workers one has another kernel, and one of the others is killed while it runs."""
    planned = planned_in(lab, tmp_path / "runs")
    wrong_kernel(folder / "c", str(planned[0].inputs["kernel"]["digest"]))
    told: list[str] = []
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(folder))
        victim = stack.enter_context(worker(address, folder / "a", environment=kernels))
        stack.enter_context(worker(address, folder / "b", as_nobody=True, environment=kernels))
        stack.enter_context(worker(address, folder / "c"))
        engine = stack.enter_context(connect(address, None, tell=told.append))
        engine._client.wait_for_workers(3, timeout=120)

        def kill(title: str, line: str) -> None:
            if line.startswith("measuring") and victim.poll() is None:
                os.kill(victim.pid, signal.SIGKILL)
                victim.wait()

        failed, lines = performed(planned, tmp_path / "runs", engine, kill)
        assert (failed, lines.count("made")) == ({}, SIX)
        (left_out,) = told
        assert "does not match its digest" in left_out
        assert not (folder / "c" / "cache" / "labs" / "roots").exists()
    assert victim.returncode == -signal.SIGKILL
    assert digests_in(tmp_path / "runs") == digests_here(lab, tmp_path / "here")
    assert not list((tmp_path / "runs").glob(".*"))


def test_a_worker_with_another_program_is_refused_by_the_key(
    lab: Lab, folder: Path, kernels: dict[str, str], tmp_path: Path
) -> None:
    """As is one without the package."""
    preload, touch = folder / "other_touch.py", folder / "touch"
    preload.write_text(OTHER_TOUCH.format(touch=str(touch)))
    touch.write_bytes(programs.find("touch").read_bytes() + b"x")
    touch.chmod(0o755)
    planned = planned_in(lab, tmp_path / "runs", (0.0,))
    told: list[str] = []
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(folder))
        other = ("--preload", str(preload))
        stack.enter_context(worker(address, folder / "a", *other, environment=kernels))
        stack.enter_context(worker(address, folder / "b", dask=WITHOUT_LABS))
        with connect(address, None, tell=told.append) as engine:
            engine._client.wait_for_workers(2, timeout=120)
            with pytest.raises(Missing, match=r"none of the 2 workers .* gives the key"):
                performed(planned, tmp_path / "runs", engine)
    assert digests_in(tmp_path / "runs") == {}
    assert len(told) == 2
    assert any("tools.kit" in line for line in told)
    assert any("does not have this version of the lab" in line for line in told)


@pytest.mark.timeout(240)
def test_a_scheduler_that_is_stopped_for_a_minute_only_delays_the_runs(
    lab: Lab, folder: Path, kernels: dict[str, str], tmp_path: Path
) -> None:
    planned = planned_in(lab, tmp_path / "runs")
    told: list[str] = []
    stopped: list[threading.Timer] = []
    with ExitStack() as stack:
        address, server = stack.enter_context(scheduler(folder))
        stack.enter_context(worker(address, folder / "a", environment=kernels))
        engine = stack.enter_context(connect(address, None, tell=told.append))
        engine._client.wait_for_workers(1, timeout=120)

        def stop(title: str, line: str) -> None:
            if line == "made" and not stopped:
                os.kill(server.pid, signal.SIGSTOP)
                stopped.append(threading.Timer(STOPPED_S, os.kill, (server.pid, signal.SIGCONT)))
                stopped[0].start()

        failed, lines = performed(planned, tmp_path / "runs", engine, stop)
    assert (failed, lines.count("made"), told) == ({}, SIX, [])
    assert digests_in(tmp_path / "runs") == digests_here(lab, tmp_path / "here")


def test_complete_runs_are_kept_when_the_scheduler_is_killed(
    lab: Lab, folder: Path, kernels: dict[str, str], tmp_path: Path
) -> None:
    planned = planned_in(lab, tmp_path / "runs")
    with ExitStack() as stack:
        address, server = stack.enter_context(scheduler(folder))
        stack.enter_context(worker(address, folder / "a", environment=kernels))
        engine = stack.enter_context(connect(address, None))

        def kill(title: str, line: str) -> None:
            if line == "made" and server.poll() is None:
                os.kill(server.pid, signal.SIGKILL)
                server.wait()

        with pytest.raises(Lost, match=address):
            performed(planned, tmp_path / "runs", engine, kill)
        with pytest.raises(Lost, match=address):
            performed(planned, tmp_path / "runs", engine)
    made = digests_in(tmp_path / "runs")
    assert 1 <= len(made) < SIX
    here = digests_here(lab, tmp_path / "here")
    assert made == {name: here[name] for name in made}


@pytest.mark.timeout(120)
def test_a_batch_ends_when_its_scheduler_dies_while_a_result_is_in_transit(
    lab: Lab,
    folder: Path,
    kernels: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    preload = folder / "dies.py"
    preload.write_text(DIES_IN_TRANSIT)
    planned = planned_in(lab, tmp_path / "runs", (0.0,))[:1]
    with ExitStack() as stack:
        address, server = stack.enter_context(scheduler(folder, "--preload", str(preload)))
        stack.enter_context(worker(address, folder / "a", environment=kernels))
        engine = stack.enter_context(connect(address, None))
        with pytest.raises(Lost, match=address):
            performed(planned, tmp_path / "runs", engine)
        assert server.wait(20) == -signal.SIGKILL
    assert caplog.records == []
    assert digests_in(tmp_path / "runs") == {}


def test_a_scheduler_needs_no_package(
    lab: Lab, folder: Path, kernels: dict[str, str], tmp_path: Path
) -> None:
    planned = planned_in(lab, tmp_path / "runs", (0.0,))
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(folder, dask=WITHOUT_LABS))
        stack.enter_context(worker(address, folder / "a", environment=kernels))
        engine = stack.enter_context(connect(address, None))
        failed, lines = performed(planned, tmp_path / "runs", engine)
    assert (failed, lines.count("made")) == ({}, 2)


def test_the_loss_of_all_workers_is_reported_once(
    lab: Lab, folder: Path, kernels: dict[str, str], tmp_path: Path
) -> None:
    """The batch continues with the next worker that is connected."""
    planned = planned_in(lab, tmp_path / "runs", (0.0,))
    told: list[str] = []
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(folder))
        victim = stack.enter_context(worker(address, folder / "a", environment=kernels))

        def tell(line: str) -> None:
            told.append(line)
            stack.enter_context(worker(address, folder / "b", environment=kernels))

        engine = stack.enter_context(connect(address, None, tell=tell))
        engine._client.wait_for_workers(1, timeout=120)

        def kill(title: str, line: str) -> None:
            if line.startswith("measuring") and victim.poll() is None:
                os.kill(victim.pid, signal.SIGKILL)
                victim.wait()

        failed, lines = performed(planned, tmp_path / "runs", engine, kill)
    assert (failed, lines.count("made"), len(told)) == ({}, 2, 1)
    assert told[0].startswith("waiting for workers")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["silent", "HTTP", "stopped"])
def test_connect_does_not_wait_for_what_is_not_a_scheduler(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 2)
    with ExitStack() as stack:
        if kind == "silent":
            port = stack.enter_context(socket.create_server((HOST, 0))).getsockname()[1]
            address = f"tcp://{HOST}:{port}"
        elif kind == "HTTP":
            port = free_port()
            options = ("--dashboard", "--dashboard-address", f"{HOST}:{port}")
            stack.enter_context(scheduler(folder, *options))
            address = f"tcp://{HOST}:{port}"
        else:
            address, server = stack.enter_context(scheduler(folder))
            os.kill(server.pid, signal.SIGSTOP)
            stack.callback(os.kill, server.pid, signal.SIGCONT)
        with pytest.raises(Missing, match=f"no scheduler answers at {address} "):
            stack.enter_context(connect(address, None))


def test_connect_does_not_print_that_versions_differ(
    folder: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    about = get_versions()
    about["packages"]["cloudpickle"] = "0.1"
    monkeypatch.setattr("distributed.client.version_module.get_versions", lambda: about)
    with scheduler(folder) as (address, _), connect(address, None):
        pass
    assert [warning for warning in recwarn if warning.category is VersionMismatchWarning] == []


def test_processes_of_this_machine_perform_runs_of_two_labs(lab: Lab, tmp_path: Path) -> None:
    """A lab with other programs is prepared while runs of the first one may still go on."""
    runs = tmp_path / "runs"
    with connect(None, "local:2") as engine:
        assert engine.dashboard.startswith("http://127.0.0.1:")
        failed, lines = performed(planned_in(lab, runs, (0.0,)), runs, engine)
        assert (failed, lines.count("made")) == ({}, 2)
        buffers = find("buffers")
        p = buffers.Parameters(runs=str(runs), only="both", transfer_mib=1)  # type: ignore[call-arg]
        failed, lines = performed(list(plan(buffers, p)), runs, engine)
        assert (failed, lines.count("made")) == ({}, 1)
        again, lines = performed(planned_in(lab, runs, (0.0,)), runs, engine)
        assert (again, lines.count("there already")) == ({}, 2)
    assert digests_in(runs) == digests_here(lab, tmp_path / "here", (0.0,))


def test_a_batch_that_is_interrupted_leaves_its_worker_to_the_next(
    lab: Lab, folder: Path, kernels: dict[str, str], tmp_path: Path
) -> None:
    planned = planned_in(lab, tmp_path / "runs", (0.0,))

    def interrupt(title: str, line: str) -> None:
        if line.startswith("measuring"):
            raise KeyboardInterrupt

    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(folder))
        stack.enter_context(worker(address, folder / "a", environment=kernels))
        with pytest.raises(KeyboardInterrupt), connect(address, None) as engine:
            performed(planned, tmp_path / "runs", engine, interrupt)
        assert digests_in(tmp_path / "runs") == {}
        with connect(address, None) as engine:
            failed, lines = performed(planned, tmp_path / "runs", engine)
    assert (failed, lines.count("made")) == ({}, 2)
    assert digests_in(tmp_path / "runs") == digests_here(lab, tmp_path / "here", (0.0,))


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])
