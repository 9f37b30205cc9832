"""What all hosts share: paths of sysctls, one-line errors, batches, restoring values in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest

from labs.errors import Missing, RunFailed
from labs.guest.outcome import Command
from labs.guest.testbed.contract import Completed, batches
from labs.guest.testbed.host import (
    Found,
    LoggedHost,
    exit_codes,
    failed,
    put_back,
    sysctl_path,
    whole,
)


def done(exit_code: int, stderr: str = "", stdout: str = "") -> Completed:
    return Completed(("tool",), exit_code, stdout.encode(), stderr.encode())


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem"),
        ("net/ipv4/conf/eth0.100/forwarding", "net/ipv4/conf/eth0.100/forwarding"),
        ("kernel.hostname", "kernel/hostname"),
    ],
)
def test_sysctl_path_of_a_name(name: str, path: str) -> None:
    assert sysctl_path(name) == path


@pytest.mark.parametrize(
    "name", ["", ".", "/", "..", "a..b", "../x", "a/../b", "/etc/passwd", "a/"]
)
def test_sysctl_path_refuses_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(Missing):
        sysctl_path(name)


def test_batches_group_neighbours_of_one_tool() -> None:
    lines = [("ip", "a"), ("ip", "b"), ("tc", "c"), ("ethtool", "d"), ("ethtool", "e"), ("ip", "f")]
    assert batches(lines) == [
        ("ip", [("ip", "a"), ("ip", "b")]),
        ("tc", [("tc", "c")]),
        ("ethtool", [("ethtool", "d")]),
        ("ethtool", [("ethtool", "e")]),
        ("ip", [("ip", "f")]),
    ]
    assert batches([]) == []


def test_exit_codes_up_to_the_line_that_failed() -> None:
    assert exit_codes(done(0), 3) == [0, 0, 0]
    assert exit_codes(done(1, 'Cannot find device "x"\nCommand failed -:2\n'), 3) == [0, 1]
    assert exit_codes(done(2, "Error: no.\nCommand failed -:1\n"), 3) == [2]
    assert exit_codes(done(-9), 3) == [-9]


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (done(2, "first\nsecond\nlast\n"), "ended with exit code 2: last (first)"),
        (done(1, "Error: only.\nCommand failed -:2\n"), "ended with exit code 1: Error: only."),
        (done(1, "", "said on stdout\n"), "ended with exit code 1: said on stdout"),
        (done(7), "ended with exit code 7"),
        (done(-15), "was ended by signal 15"),
    ],
)
def test_failed_is_one_line(ended: Completed, words: str) -> None:
    assert str(failed("client", ("tool", "-x"), ended)) == f"`tool -x` on client {words}"


def test_whole_leaves_all_or_nothing(tmp_path: Path) -> None:
    into = tmp_path / "into"
    with whole(into) as part:
        part.write_text("new")
        assert not into.exists()
    assert into.read_text() == "new"
    with pytest.raises(ValueError, match=r"^stop$"), whole(into) as part:
        part.write_text("half")
        raise ValueError("stop")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("into", "new")]


class Kept(LoggedHost):
    """A host whose sysctls are a dictionary, to test the order in which they are restored."""

    def __init__(self, name: str, sysctls: dict[str, str], found: Found) -> None:
        super().__init__(name, "", "", PurePosixPath("/"), [], found)
        self.sysctls = sysctls
        self.refuses = ""

    def _execute(
        self, argv: Sequence[str], stdin: bytes, timeout_s: float
    ) -> tuple[int, Completed]:
        raise NotImplementedError

    def _read_sysctl(self, path: str) -> str:
        return self.sysctls[path]

    def _write_sysctl(self, path: str, value: str) -> None:
        if value == self.refuses:
            raise OSError(22, "Invalid argument")
        self.sysctls[path] = value

    def clock_ns(self) -> int:
        return 1


def test_put_back_restores_hosts_of_one_kernel_in_reverse_order() -> None:
    kernel, found = {"a": "0", "b": "0"}, Found()
    one, other = Kept("one", kernel, found), Kept("other", kernel, found)
    for host, value in ((other, "1"), (one, "2"), (other, "3"), (one, "4")):
        host.set_sysctl("a", value)
    one.set_sysctl("b", "9")
    assert kernel == {"a": "4", "b": "9"}
    put_back(found)
    assert kernel == {"a": "0", "b": "0"} and found == []


def test_put_back_reports_a_refused_value_after_the_rest() -> None:
    found = Found()
    host = Kept("one", {"a": "0", "b": "0"}, found)
    host.set_sysctl("a", "1")
    host.set_sysctl("b", "2")
    host.refuses = "0"
    with pytest.raises(RunFailed, match=r"^a of one could not be restored to '0': .*Invalid"):
        put_back(found)
    assert found == []


def test_set_sysctl_logs_the_command_to_paste() -> None:
    host = Kept("one", {"a": "0"}, [])
    host.set_sysctl("a", "1  2")
    assert host._log == [Command(1, "one", ("sysctl", "-w", "a=1 2"), 0)]


def test_set_sysctl_refused_changes_nothing() -> None:
    found = Found()
    host = Kept("one", {"a": "0"}, found)
    host.refuses = "1"
    with pytest.raises(RunFailed, match=r"^a of one refuses '1': Invalid argument$"):
        host.set_sysctl("a", "1")
    assert (host.sysctls, found, host._log) == ({"a": "0"}, [], [])
