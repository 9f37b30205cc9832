"""Processes of this machine: started in a group of their own, awaited without polling."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from labs.errors import Missing, RunFailed
from labs.testbed.contract import Completed

PACKAGES = {"ss": "iproute2", "ip": "iproute2", "tc": "iproute2", "nstat": "iproute2",
            "nginx": "nginx-light", "tcpdump": "tcpdump", "wget": "wget", "ethtool": "ethtool",
            "ab": "apache2-utils", "iperf3": "iperf3", "ssh": "openssh-client"}


def missing(program: str, host: str = "this machine") -> Missing:
    """The error for a program that is not there."""
    return Missing(f"{program} is not installed on {host}; on Debian: "
                   f"apt-get install {PACKAGES.get(program, program)}")


class LocalProcess:
    """A process of this machine that leads a session (and so a group) of its own."""

    def __init__(self, argv: tuple[str, ...], pid: int) -> None:
        self.argv = argv
        self.pid = pid
        self._exit_code: int | None = None
        self._ended = os.pidfd_open(pid)

    def wait(self, timeout_s: float | None = None) -> int | None:
        if self._exit_code is None:
            waiter = select.poll()
            waiter.register(self._ended, select.POLLIN)
            if waiter.poll(None if timeout_s is None else max(0, round(timeout_s * 1000))):
                _, status = os.waitpid(self.pid, 0)
                self._exit_code = os.waitstatus_to_exitcode(status)
                os.close(self._ended)
        return self._exit_code

    def signal(self, number: int) -> None:
        if self._exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._ended, number)

    def stop(self, grace_s: float = 2.0) -> int:
        self._signal_group(signal.SIGTERM)
        if self.wait(grace_s) is None:
            self._signal_group(signal.SIGKILL)
        exit_code = self.wait()
        # The leader is gone; whoever is left of its group goes now.
        self._signal_group(signal.SIGKILL)
        deadline = time.monotonic() + grace_s
        while self._group_lives() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert exit_code is not None
        return exit_code

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except OSError as error:
            return error.errno == errno.EPERM
        return True


def spawn(argv: Sequence[str], *, stdin: int, stdout: int, stderr: int) -> LocalProcess:
    """Start a program by its name in PATH; Missing if it is not there."""
    words = tuple(argv)
    actions = [(os.POSIX_SPAWN_DUP2, fd, target)
               for target, fd in enumerate((stdin, stdout, stderr))]
    try:
        pid = os.posix_spawnp(words[0], words, os.environ, file_actions=actions, setsid=True,
                              setsigmask=[], setsigdef=[signal.SIGPIPE, signal.SIGINT])
    except FileNotFoundError:
        raise missing(words[0]) from None
    except PermissionError:
        raise Missing(f"{words[0]} may not be executed here") from None
    return LocalProcess(words, pid)


def run(argv: Sequence[str], *, stdin: bytes, timeout_s: float) -> Completed:
    """Run a program to its end; RunFailed, and its group killed, past `timeout_s`."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, \
            tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        process = spawn(argv, stdin=given.fileno(), stdout=out.fileno(), stderr=err.fileno())
        try:
            exit_code = process.wait(timeout_s)
        except BaseException:
            process.stop(0)
            raise
        if exit_code is None:
            process.stop(0)
            raise RunFailed(f"{' '.join(argv)} did not end within {timeout_s:g} s and was killed")
        out.seek(0)
        err.seek(0)
        return Completed(tuple(argv), exit_code, out.read(), err.read())


def fork(source: Path, args: Sequence[str], *, stdout: str,
         enter: Callable[[], None]) -> LocalProcess:
    """Run `main(args)` of a single-file program in a child of this process, after `enter()`."""
    pid = os.fork()
    if pid:
        return LocalProcess((str(source), *args), pid)
    exit_code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        output = os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        nothing = os.open("/dev/null", os.O_RDONLY)
        for target, fd in enumerate((nothing, output, output)):
            os.dup2(fd, target)
        enter()
        spec = importlib.util.spec_from_file_location(source.stem, source)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        exit_code = module.main(list(args))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(exit_code)
