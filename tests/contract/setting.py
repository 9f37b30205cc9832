"""How the checks open a testbed, and what must not be left of it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from labs.errors import RunFailed
from labs.guest.testbed.contract import Host, Testbed
from labs.guest.testbed.link import Link

Check = Callable[..., None]
READY_S = 60.0
PLAIN = Link()


class NotApplicable(Exception):
    """The reason why a check does not apply."""


@dataclass
class Setting:
    """A kind of testbed. `missing` says why a part of the link ("netem") is not here; `left` tells
    what is left of testbeds whose hosts had these folders; `whole_kernel` is whether a host can set
    what its kernel has one of, and `routers` whether a link may be shaped at one."""

    open: Callable[[Link], AbstractContextManager[Testbed]]
    left: Callable[[set[str]], list[str]]
    virtual_time: bool = False
    routers: bool = True
    whole_kernel: bool = True
    missing: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    @contextmanager
    def testbed(self, link: Link = PLAIN) -> Iterator[Testbed]:
        """An open testbed; its folders are recorded, because nothing of it may be left."""
        with self.open(link) as testbed:
            self.folders |= {str(host.folder) for host in testbed.hosts().values()}
            yield testbed

    def needs(self, *parts: str) -> None:
        """NotApplicable if a part of the link is missing."""
        for part in parts:
            if part in self.missing:
                raise NotApplicable(self.missing[part])


def run(check: Check, setting: Setting) -> None:
    """Run a check, and assert that nothing is left of the testbeds that it opened."""
    setting.folders.clear()
    if "setting" in inspect.signature(check).parameters:
        check(setting)
    else:
        with setting.testbed() as testbed:
            check(testbed)
    left = setting.left(setting.folders)
    assert not left, f"left behind: {left}"


def checks_of(subject: ModuleType) -> dict[str, Check]:
    """The checks of a module, in their order."""
    return {name: value for name, value in vars(subject).items() if name.startswith("check_")}


@contextmanager
def refused(kind: type[Exception], *words: str) -> Iterator[None]:
    """Assert that the block raises this error, in one line that contains these words."""
    try:
        yield
    except kind as error:
        said = str(error)
        assert "\n" not in said, f"not one line: {said!r}"
        for word in words:
            assert word in said, f"{word!r} is not in {said!r}"
    else:
        raise AssertionError(f"no {kind.__name__}")


def equal(found: Any, requested: Any) -> None:
    """Assert equality; inside a booted kernel there is no pytest that would show both."""
    assert found == requested, f"{found!r} is not {requested!r}"


def path(host: Host, name: str) -> str:
    """A path in the folder of a host."""
    return f"{host.folder}/{name}"


def lives(host: Host, pid: str | bytes | int) -> bool:
    """Whether the process with this id is running on the host."""
    number = pid.decode() if isinstance(pid, bytes) else str(pid)
    try:
        stat = host.read(f"/proc/{int(number)}/stat")
    except RunFailed:
        return False
    return stat.rpartition(b")")[2].split()[0] != b"Z"


def await_text(host: Host, where: str, text: bytes = b"\n") -> bytes:
    """Sleep until a file of the host contains `text`, and return its content."""
    for _ in range(round(READY_S / 0.02)):
        try:
            content = host.read(where)
        except RunFailed:
            content = b""
        if text in content:
            return content
        time.sleep(0.02)
    raise AssertionError(f"no {text!r} came to be in {where}")
