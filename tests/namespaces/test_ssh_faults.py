"""Failures over ssh: each is reported in one line, and the machine is restored."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from labs.drive.testbed import ssh
from labs.drive.testbed.ssh import SshHost
from labs.drive.testbed.vagrant import Machine, Machines
from labs.errors import LabError, Missing, RunFailed
from labs.guest.bench import Bench
from labs.guest.condition import Condition
from labs.guest.testbed.contract import Testbed
from labs.guest.testbed.link import Link
from tests.contract.leaving import STUBBORN
from tests.contract.setting import await_text
from tests.contract.sysctls import LASTING
from tests.sshd import Sshd, sshd

ROOT = Path(__file__).resolve().parents[2]
Daemons = dict[str, tuple[Sshd, Machine]]


def until(true: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError(what)


def runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def lasting() -> str:
    return Path("/proc/sys", LASTING.replace(".", "/")).read_text().strip()


def host(machine: Machine) -> SshHost:
    return SshHost("server", machine.address, machine.device, machine.login, machine.folder, [], [])


@contextlib.contextmanager
def opened(machine: Machine) -> Iterator[SshHost]:
    found = host(machine)
    found.open()
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def machine(daemons: Daemons) -> Machine:
    return daemons["server"][1]


def login(machine: Machine, **changes: object) -> Machine:
    return dataclasses.replace(machine, login=dataclasses.replace(machine.login, **changes))  # type: ignore[arg-type]


def refusal(machine: Machine) -> LabError:
    """The error of opening a machine, in one line; nothing is left here."""
    with pytest.raises(LabError) as caught:
        host(machine).open()
    assert "\n" not in str(caught.value)
    assert list(ssh.CONTROL_FOLDERS.iterdir()) == []
    return caught.value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-p", "1"), "Connection refused"),
        (("-o", "PubkeyAuthentication=no"), "Permission denied"),
        (("-o", "UserKnownHostsFile=/dev/null"), "Host key verification failed"),
        (("-o", "HostName=no.such.name.invalid"), "Could not resolve hostname"),
    ],
)
def test_machines_that_cannot_be_reached(
    machine: Machine, options: tuple[str, ...], words: str
) -> None:
    error = refusal(login(machine, options=(*options, *machine.login.options)))
    assert isinstance(error, Missing)
    assert words in str(error)
    assert f"ssh {' '.join(options)} -F" in str(error)


def test_machines_without_python(machine: Machine) -> None:
    error = refusal(login(machine, python="no-such-python3"))
    assert isinstance(error, Missing)
    assert "Install no-such-python3 there" in str(error)


def test_machines_with_a_folder_of_another_owner(machine: Machine) -> None:
    folder = Path(machine.folder).with_name("theirs")
    folder.mkdir()
    (folder / "precious").write_text("kept")
    error = refusal(dataclasses.replace(machine, folder=PurePosixPath(folder)))
    assert isinstance(error, RunFailed)
    assert str(folder) in str(error)
    assert (folder / "precious").read_text() == "kept"
    folder.joinpath("precious").unlink()
    with opened(dataclasses.replace(machine, folder=PurePosixPath(folder))):
        assert folder.is_dir()
    assert not folder.exists()


def test_machines_with_a_folder_that_cannot_be_created(machine: Machine) -> None:
    error = refusal(dataclasses.replace(machine, folder=PurePosixPath("/proc/nonsuch/folder")))
    assert "/proc/nonsuch" in str(error)


def test_machines_in_use_by_another_run(machine: Machine) -> None:
    with opened(machine) as first:
        with pytest.raises(RunFailed, match="in use by another run"):
            host(machine).open()
        assert first.run(("echo", "undisturbed")).stdout == b"undisturbed\n"


def test_machines_with_output_of_the_login_shell(tmp_path: Path, machine: Machine) -> None:
    tmp_path.chmod(0o755)
    namespace = next(path.name for path in Path("/run/netns").glob("labs-*-server"))
    with (
        sshd(tmp_path / "noisy", namespace, first='echo "Welcome to {}";') as daemon,
        opened(dataclasses.replace(machine, login=daemon.login)) as noisy,
    ):
        assert noisy.run(("echo", "hello")).stdout == b"hello\n"
        assert noisy.start(("sh", "-c", "exit 3")).wait() == 3


def test_machines_with_a_full_disk(tmp_path: Path, machine: Machine) -> None:
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path), check=True)
    try:
        with opened(dataclasses.replace(machine, folder=PurePosixPath(tmp_path, "f"))) as full:
            with pytest.raises(RunFailed, match="No space left on device"):
                full.write(f"{full.folder}/large", bytes(4 << 20))
            with pytest.raises(RunFailed, match="No space left on device"):
                full.run(("cp", "/bin/bash", f"{full.folder}/bash"))
            full.write(f"{full.folder}/large", b"")
    finally:
        subprocess.run(("umount", tmp_path), check=True)


def test_last_word_on_a_full_disk(tmp_path: Path, machine: Machine) -> None:
    bench = Bench(cast(Testbed, None), cast(Condition, None), tmp_path, print)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path), check=True)
    try:
        with opened(dataclasses.replace(machine, folder=PurePosixPath(tmp_path, "f"))) as full:
            full.write(f"{full.folder}/said.txt", b"")
            assert bench.last_word(full, "said.txt") == "it printed nothing"
            full.run(("cp", "/bin/bash", f"{full.folder}/bash"), check=False)
            assert "No space left on device" in bench.last_word(full, "said.txt")
    finally:
        subprocess.run(("umount", tmp_path), check=True)


def sessions(daemon: Sshd) -> list[int]:
    """The processes of an sshd that serve connections: from OpenSSH 9.8 on two for each, a monitor
    and its child, which goes on without it; before that, for root, one."""
    found, parents = [], [daemon.pid]
    for parent in parents:
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            served = [
                int(pid)
                for pid in children
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd")
            ]
            found += served
            parents += served
    return found


def drop(daemon: Sshd) -> None:
    for pid in sessions(daemon):
        os.kill(pid, signal.SIGKILL)


def in_the_middle(testbed: Machines) -> list[int]:
    """The middle of a run: a sysctl was changed, and a stubborn program is running."""
    testbed.server.set_sysctl(LASTING, "41")
    out = f"{testbed.server.folder}/pids"
    testbed.server.start(("sh", "-c", STUBBORN), stdout=out)
    return [int(pid) for pid in await_text(testbed.server, out).split()]


def fails_because_of_it(testbed: Machines) -> None:
    """The program of the other host fails first, because its server is gone."""
    raise RunFailed("the client failed: the server closed")


WAYS: dict[str, Callable[[Machines], object]] = {
    "run": lambda testbed: testbed.server.run(("sleep", "1000"), timeout_s=2000),
    "wait": lambda testbed: testbed.server.start(("sleep", "1000")).wait(),
    "stop": lambda testbed: testbed.server.start(("sleep", "1000")).stop(),
    "read": lambda testbed: testbed.server.read("/etc/hostname"),
    "write": lambda testbed: testbed.server.write(f"{testbed.server.folder}/x", bytes(20 << 20)),
    "sysctl": lambda testbed: testbed.server.sysctl(LASTING),
    "leave": lambda testbed: None,
    "another failure": fails_because_of_it,
}


@pytest.mark.parametrize("way", WAYS)
def test_machines_whose_connection_drops(daemons: Daemons, way: str) -> None:
    """The error names the lost connection; the machine is restored and its programs end."""
    (daemon, server), (_, client) = daemons.values()
    before = lasting()
    pids: list[int] = []
    blocked = way in ("run", "wait")
    with pytest.raises(RunFailed) as caught, Machines(Link(), server, client) as testbed:
        pids += in_the_middle(testbed)
        assert lasting() == "41"
        if blocked:
            subprocess.Popen(
                (
                    sys.executable,
                    "-c",
                    "import os, sys, time; time.sleep(1);"
                    "[os.kill(int(pid), 9) for pid in sys.argv[1:]]",
                    *map(str, sessions(daemon)),
                )
            )
        else:
            drop(daemon)
        WAYS[way](testbed)
    assert "\n" not in str(caught.value)
    assert "the connection to server (lab) was lost: " in str(caught.value)
    assert any(
        reason in str(caught.value)
        for reason in ("closed by remote host", "Broken pipe", "Connection reset")
    ), str(caught.value)
    until(lambda: not any(map(runs, pids)), "programs still run on the machine")
    until(lambda: lasting() == before, "the sysctl is not put back")
    until(lambda: not Path(server.folder).exists(), "the folder is left")
    assert list(ssh.CONTROL_FOLDERS.iterdir()) == []
    with Machines(Link(), server, client) as again:
        assert again.server.run(("echo", "again")).stdout == b"again\n"


def test_machines_that_freeze(daemons: Daemons) -> None:
    """It neither responds nor closes the connection; the error is raised within seconds."""
    (daemon, server), (_, client) = daemons.values()
    before = lasting()
    stopped: list[int] = []
    try:
        lost = r"was lost: Timeout, server 127\.0\.0\.1 not responding"
        with pytest.raises(RunFailed, match=lost), Machines(Link(), server, client) as testbed:
            pids = in_the_middle(testbed)
            stopped += sessions(daemon)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            testbed.server.run(("sleep", "1000"), timeout_s=2000)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    until(lambda: not any(map(runs, pids)), "programs still run on the machine")
    until(lambda: lasting() == before, "the sysctl is not put back")


def test_start_of_more_programs_than_a_connection_carries(machine: Machine) -> None:
    """sshd allows ten sessions a connection unless told otherwise (MaxSessions)."""
    with opened(machine) as one:
        with pytest.raises(LabError, match="MaxSessions"):
            for _ in range(12):
                one.start(("sleep", "1000"))
        one.stop_all()
        for _ in range(12):
            assert one.start(("true",)).wait() == 0


OWNER = f"""
import json, sys, time
sys.path.insert(0, {str(ROOT)!r})
from pathlib import PurePosixPath
from pathlib import Path
from labs.drive.testbed import ssh
from labs.guest.testbed.contract import Testbed
from labs.drive.testbed.connection import Login
from labs.guest.testbed.link import Link
from labs.drive.testbed.vagrant import Machine, Machines
from tests.namespaces.test_ssh_faults import in_the_middle
machines = [Machine(Login(*one[0]), one[1], one[2], PurePosixPath(one[3]))
            for one in json.loads(sys.argv[1])]
ssh.CONTROL_FOLDERS = Path(sys.argv[2])
with Machines(Link(), *machines) as testbed:
    print(*in_the_middle(testbed), flush=True)
    testbed.client.run(("sleep", "1000"), timeout_s=2000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_machines_whose_owner_is_killed(daemons: Daemons, number: int) -> None:
    (daemon, server), (_, client) = daemons.values()
    before = lasting()
    given = json.dumps(
        [
            [(one.login.destination, one.login.options), one.address, one.device, str(one.folder)]
            for one in (server, client)
        ]
    )
    owner = subprocess.Popen(
        (sys.executable, "-c", OWNER, given, str(ssh.CONTROL_FOLDERS)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 2 and all(map(runs, pids)) and lasting() == "41"
    owner.send_signal(number)
    owner.wait()
    owner.stdout.close()
    until(lambda: not any(map(runs, pids)), "programs still run on the machine")
    until(lambda: lasting() == before, "the sysctl is not put back")
    until(lambda: not Path(server.folder).exists(), "the folder is left")
    until(lambda: not sessions(daemon), "a connection is left")
    with Machines(Link(), server, client):
        assert len(list(ssh.CONTROL_FOLDERS.iterdir())) == 2  # those of this testbed
    assert list(ssh.CONTROL_FOLDERS.iterdir()) == []
