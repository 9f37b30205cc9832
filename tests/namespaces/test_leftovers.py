"""What a killed testbed leaves on this machine, and how the next one removes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from labs.drive.testbed import namespaces
from labs.drive.testbed.namespaces import OnThisMachine
from labs.guest.testbed.link import Link
from tests.contract.setting import await_text
from tests.contract.sysctls import LASTING
from tests.namespaces.test_ssh_faults import lasting, runs

ROOT = Path(__file__).resolve().parents[2]
OWNER = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from labs.guest.testbed.link import Link
from labs.drive.testbed.namespaces import OnThisMachine
from tests.contract.leaving import stubborn
from tests.contract.sysctls import LASTING
with OnThisMachine(Link()) as testbed:
    testbed.server.set_sysctl(LASTING, "51")
    testbed.client.set_sysctl(LASTING, "52")
    print(testbed.server.folder.parent, *(int(pid) for _, pid in stubborn(testbed)), flush=True)
    time.sleep(1000)
"""


def own(*paths: str) -> list[Path]:
    """What exists of testbeds with these tags."""
    return [
        path
        for root in ("/run/netns", "/run/labs", tempfile.gettempdir())
        for tag in paths
        for path in Path(root).glob(f"{tag}*")
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_clear_stale_after_an_owner_was_killed(number: int) -> None:
    """After ^C nothing is left; after kill -9 the next testbed removes what is left."""
    before = lasting()
    owner = subprocess.Popen(
        (sys.executable, "-c", OWNER),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert owner.stdout is not None
    folder, *pids = owner.stdout.readline().decode().split()
    tag = Path(folder).name
    assert len(pids) == 4 and all(runs(int(pid)) for pid in pids)
    assert lasting() == "52" and len(own(tag)) == 4
    owner.send_signal(number)
    owner.wait()
    owner.stdout.close()
    if number == signal.SIGKILL:
        assert len(own(tag)) == 4
        with OnThisMachine(Link()):
            pass
    assert own(tag) == []
    assert lasting() == before
    assert not any(runs(int(pid)) for pid in pids)


def test_clear_stale_leaves_a_running_testbed_alone() -> None:
    with OnThisMachine(Link()) as first:
        first.server.write(f"{first.server.folder}/file", b"content")
        with OnThisMachine(Link()) as second:
            assert second.server.folder != first.server.folder
            assert first.server.run(("true",)).exit_code == 0
        namespaces.clear_stale()
        assert first.server.read(f"{first.server.folder}/file") == b"content"
        first.client.run(("ip", "link", "show", "eth0"))


def test_clear_stale_reads_an_incomplete_journal() -> None:
    """The owner was killed while writing the last line."""
    namespaces.JOURNALS.mkdir(exist_ok=True)
    left = namespaces.JOURNALS / "labs-0cut0000"
    folder = Path(tempfile.gettempdir(), "labs-0cut0000")
    folder.mkdir()
    (folder / "link").symlink_to("/etc")
    (folder / "sub").mkdir()
    made = [folder.stat().st_dev, folder.stat().st_ino]
    left.write_text(f'{{"folder": "{folder}", "made": {made}}}\n{{"namespace": "labs-0cut0000-se')
    namespaces.clear_stale()
    assert not left.exists() and not folder.exists()
    assert os.path.isdir("/etc")


def test_remove_namespace_ends_processes_outside_their_group() -> None:
    with OnThisMachine(Link()) as testbed:
        daemon = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(1000)"
        out = f"{testbed.server.folder}/pid"
        process = testbed.server.start(
            ("python3", "-c", f"import os; os.fork() or exec({daemon!r})"), stdout=out
        )
        assert process.wait() == 0
        pid = int(await_text(testbed.server, out))
        process.stop()
        assert runs(pid)
    assert not runs(pid)


def test_journal_omits_sysctls_of_a_namespace() -> None:
    with OnThisMachine(Link()) as testbed:
        tag = testbed.server.folder.parent.name
        testbed.server.set_sysctl("net.ipv4.tcp_rmem", "4096 50000 6000000")
        assert "tcp_rmem" not in (namespaces.JOURNALS / tag).read_text()
        testbed.server.set_sysctl(LASTING, "61")
        assert LASTING.replace(".", "/") in (namespaces.JOURNALS / tag).read_text()
