"""A dask scheduler and workers as processes of this machine, each with a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[1]
DASK = (sys.executable, "-m", "dask")
WITHOUT_LABS = (
    *(sys.executable, "-I", "-S", "-c"),
    f"import sys; sys.path += [{sysconfig.get_path('purelib')!r}]; "
    "from dask.__main__ import main; main()",
)
"""The same packages without those that are installed as paths, such as this clone."""
HERE = ("--host", "127.0.0.1", "--no-dashboard")
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
STARTS_S = 120


@contextmanager
def process(*argv: str, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own session; killed with all of its group at the end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LABS_")}
    with log.open("wb") as output:
        started = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=ROOT,
            env=kept | environment,
        )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()


@contextmanager
def scheduler(
    folder: Path, *options: str, dask: tuple[str, ...] = DASK
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler that listens on 127.0.0.1: its address and its process."""
    file = folder / "scheduler.json"
    argv = (*dask, "scheduler", *HERE, "--port", "0", "--scheduler-file", str(file), *options)
    with process(*argv, log=folder / "scheduler.log") as started:
        until = time.monotonic() + STARTS_S
        while not file.exists() or not file.read_text():
            assert started.poll() is None, (folder / "scheduler.log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"], started


@contextmanager
def worker(
    address: str,
    home: Path,
    *options: str,
    dask: tuple[str, ...] = DASK,
    as_nobody: bool = False,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker with one thread and without a nanny, whose home, cache and files are in `home`."""
    home.mkdir(exist_ok=True)
    home.chmod(0o755)
    prefix: tuple[str, ...] = ()
    if as_nobody and os.geteuid() == 0:
        prefix = AS_NOBODY
        os.chown(home, NOBODY, NOBODY)
    argv = (
        *(*prefix, *dask, "worker", address, *HERE, "--no-nanny", "--nthreads", "1"),
        *("--local-directory", str(home / "dask"), "--memory-limit", "0", *options),
    )
    variables = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "TMPDIR": "/tmp"}
    with process(*argv, log=home.with_suffix(".log"), **variables, **environment) as started:
        yield started


def started_from(folder: Path) -> list[str]:
    """The programs that are running and whose file, working folder or words name a folder."""
    commands = []
    for about in Path("/proc").glob("[0-9]*"):
        try:
            words = (about / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            places = [os.readlink(about / "exe"), os.readlink(about / "cwd"), *words]
        except OSError:
            continue
        if any(str(folder) in place for place in places):
            commands.append(" ".join(words))
    return commands
