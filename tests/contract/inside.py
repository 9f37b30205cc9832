"""Run checks inside a booted kernel: `main(["namespaces", *names])`, or `["ssh", *names]` for
hosts reached over ssh, writes a JSON line a check to checks.jsonl."""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from labs.drive.testbed.vagrant import Machine, Machines
from labs.guest.testbed import process
from labs.guest.testbed.link import Link
from labs.guest.testbed.namespaces import ALLOWED, AVAILABLE, Namespaces
from tests.contract import CHECKS, NotApplicable, Setting, run

RESULTS = "checks.jsonl"


def files() -> list[str]:
    """Everything that testbeds create; a booted kernel has nothing else there."""
    return [str(path) for root in ("/run/netns", "/tmp") for path in Path(root).glob("*")]


def programs() -> list[str]:
    """The running programs, except init and this one."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid()):
            with contextlib.suppress(OSError):
                words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
                if words[0]:
                    found.append(f"{name} {words}")
    return found


@contextlib.contextmanager
def namespaces() -> Iterator[Setting]:
    yield Setting(
        open=lambda link: Namespaces(link),
        left=lambda folders: files() + programs(),
        virtual_time=True,
    )


@contextlib.contextmanager
def ssh() -> Iterator[Setting]:
    """Two sshd whose sessions run in namespaces of this kernel."""
    from tests.sshd import sshd

    root = Path("/run/ssh")
    root.mkdir()
    process.run(("ip", "link", "set", "dev", "lo", "up"), stdin=b"", timeout_s=60)
    with contextlib.ExitStack() as stack:
        ground = stack.enter_context(Namespaces(Link()))
        ground.server.set_sysctl(ALLOWED, ground.server.sysctl(AVAILABLE))  # as on a machine
        server, client = (
            Machine(
                stack.enter_context(sshd(root / name, name)).login,
                host.address,
                host.device,
                PurePosixPath(root, name, "folder"),
            )
            for name, host in ground.hosts().items()
        )
        before = set(files())

        def left(folders: set[str]) -> list[str]:
            there = [folder for folder in folders if Path(folder).exists()]
            return there + sorted(set(files()) - before)

        yield Setting(
            open=lambda link: Machines(link, server, client),
            left=left,
            virtual_time=True,
            routers=False,
            whole_kernel=False,
        )


def main(argv: list[str]) -> int:
    where, *names = argv
    with (
        {"namespaces": namespaces, "ssh": ssh}[where]() as setting,
        open(RESULTS, "w", encoding="utf-8") as results,
    ):
        for name in names:
            print(f"{time.time_ns()} {name}", flush=True)
            outcome, why = "passed", ""
            try:
                run(CHECKS[name], setting)
            except NotApplicable as reason:
                outcome, why = "not applicable", str(reason)
            except BaseException:
                outcome, why = "failed", traceback.format_exc()
            json.dump({"check": name, "outcome": outcome, "why": why}, results)
            results.write("\n")
            results.flush()
    return 0
