"""Processes of this machine: started in their own group, awaited without polling."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import io
import os
import signal
import socket  # noqa: F401  the programs that are forked here import it: once for all of them
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from labs.errors import Missing, RunFailed
from labs.guest.testbed.contract import Completed
from labs.guest.testbed.process_group import KILLED_S, await_group, readable, signal_group

PACKAGES = {
    "ss": "iproute2",
    "ip": "iproute2",
    "tc": "iproute2",
    "nstat": "iproute2",
    "nginx": "nginx-light",
    "tcpdump": "tcpdump",
    "wget": "wget",
    "ethtool": "ethtool",
    "ab": "apache2-utils",
    "iperf3": "iperf3",
    "ssh": "openssh-client",
}


def missing(program: str, host: str = "this machine") -> Missing:
    """The error for a program that is not installed."""
    return Missing(
        f"{program} is not installed on {host}. On Debian: "
        f"apt-get install {PACKAGES.get(program, program)}"
    )


class LocalProcess:
    """A process of this machine that leads its own session, and therefore its own group.

    After its end it stays a zombie until `stop`: its number is not reused before, so a signal to
    the group reaches only the group.
    """

    def __init__(self, argv: tuple[str, ...], pid: int) -> None:
        self.argv = argv
        self.pid = pid
        self._exit_code: int | None = None
        self._stopped = False
        self._ended = os.pidfd_open(pid)

    def fileno(self) -> int:
        """A descriptor that becomes readable when the program ends, for use with poll(2); valid
        until `stop`."""
        return self._ended

    def wait(self, timeout_s: float | None = None) -> int | None:
        if self._exit_code is None and readable(self._ended, timeout_s):
            about = os.waitid(os.P_PIDFD, self._ended, os.WEXITED | os.WNOWAIT)
            assert about is not None
            ended_by_itself = about.si_code == os.CLD_EXITED
            self._exit_code = about.si_status if ended_by_itself else -about.si_status
        return self._exit_code

    def signal(self, number: int) -> None:
        if not self._stopped:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._ended, number)

    def stop(self, grace_s: float = 2.0) -> int:
        if not self._stopped:
            deadline = time.monotonic() + grace_s
            signal_group(self.pid, signal.SIGTERM)
            if self.wait(grace_s) is None:
                signal_group(self.pid, signal.SIGKILL)
                self.wait()
            self._collect(deadline)
        assert self._exit_code is not None
        return self._exit_code

    def end_group(self) -> int:
        """Kill the rest of the group of a program that has ended; return its exit code."""
        exit_code = self.wait()
        assert exit_code is not None
        if not self._stopped:
            signal_group(self.pid, signal.SIGKILL)
            self._collect(0)
        return exit_code

    def _collect(self, deadline: float) -> None:
        """Collect the leader, and wait for the rest of its group; after `deadline` it is killed."""
        os.waitpid(self.pid, 0)
        os.close(self._ended)
        self._stopped = True
        if await_group(self.pid, deadline - time.monotonic()):
            signal_group(self.pid, signal.SIGKILL)
            if rest := await_group(self.pid, KILLED_S):
                raise RunFailed(f"{self.argv[0]} left processes that cannot be killed: {rest}")


def spawn(
    argv: Sequence[str], *, stdin: int, stdout: int, stderr: int, host: str = "this machine"
) -> LocalProcess:
    """Start a program by its name in PATH; Missing if it does not exist or cannot be executed."""
    words = tuple(argv)
    actions = [
        (os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate((stdin, stdout, stderr))
    ]
    try:
        pid = os.posix_spawnp(
            words[0],
            words,
            os.environ,
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGINT],
        )
    except FileNotFoundError:
        raise missing(words[0], host) from None
    except OSError as error:
        raise Missing(f"{words[0]} cannot be executed on {host}: {error.strerror}") from None
    return LocalProcess(words, pid)


def run(
    argv: Sequence[str],
    *,
    stdin: bytes,
    timeout_s: float,
    host: str = "this machine",
    watch: Callable[[LocalProcess], bool] | None = None,
) -> Completed:
    """Run a program to its end, then kill the rest of its group; RunFailed after `timeout_s`.

    `watch`, if given, does the waiting; it returns whether the program ended.
    """
    # In memory, since a pipe would have to be read while the program runs.
    with contextlib.ExitStack() as files:
        given, out, err = (
            files.enter_context(open(os.memfd_create(name), "w+b"))
            for name in ("stdin", "stdout", "stderr")
        )
        given.write(stdin)
        given.seek(0)
        process = spawn(
            argv, stdin=given.fileno(), stdout=out.fileno(), stderr=err.fileno(), host=host
        )
        try:
            ended = watch(process) if watch else process.wait(timeout_s) is not None
        except BaseException:
            process.stop(0)
            raise
        if not ended:
            process.stop(0)
            raise late(argv, host, timeout_s)
        exit_code = process.end_group()
        out.seek(0)
        err.seek(0)
        return Completed(tuple(argv), exit_code, out.read(), err.read())


def late(argv: Sequence[str], host: str, timeout_s: float) -> RunFailed:
    """The error for a command that exceeded its timeout."""
    return RunFailed(
        f"`{' '.join(argv)}` on {host} did not end within {timeout_s:g} s and was killed"
    )


def fork(
    source: Path, args: Sequence[str], *, stdout: int, enter: Callable[[], None]
) -> LocalProcess:
    """Run `main(args)` of a single-file program in a child process, after `enter()`."""
    sys.stdout.flush()
    sys.stderr.flush()
    begun, begin = os.pipe()
    pid = os.fork()
    if not pid:
        _be_the_program(source, args, stdout, enter)
    os.close(begin)
    # Readable when the child closes its end: it leads its group by then and receives signals.
    readable(begun, None)
    os.close(begun)
    return LocalProcess((str(source), *args), pid)


def _be_the_program(
    source: Path, args: Sequence[str], stdout: int, enter: Callable[[], None]
) -> NoReturn:
    exit_code = 1
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        for target, fd in enumerate((os.open("/dev/null", os.O_RDONLY), stdout, stdout)):
            os.dup2(fd, target)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(1, "w", closefd=False)), line_buffering=True
        )
        sys.stderr = sys.stdout
        enter()
        # The program shall not inherit the open files of this process. One is the pipe `begun`.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        spec = importlib.util.spec_from_file_location(source.stem, source)
        if spec is None or spec.loader is None:
            raise OSError(errno.EINVAL, "not a Python file", str(source))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        exit_code = module.main(list(args))
    except SystemExit as error:
        exit_code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(exit_code & 0xFF)
