"""The buffer lab on two machines, compared with the virtual testbed; and failures during a run."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labs.drive.testbed.vagrant import DEVICE
from labs.drive.testbed.vagrant_up import NAMES, folder
from labs.read.parse.ss import blocks
from tests.conftest import DEFAULT_KERNEL, no_kernel
from tests.vm.conftest import On

CONDITIONS = ["unshaped", "shaped", "default", "wmem", "both", "rmem100"]
# On machines a run takes about half a minute, twice that on a busy host, and runs are repeated.
pytestmark = pytest.mark.timeout(3000)
IN_THE_MIDDLE_S = 90
INTERRUPTED = 130


# The smallest download that is still running when a fault is injected.
ONCE = (
    "run",
    "buffers",
    "--testbed",
    "vagrant",
    "--rate-mbit",
    "200",
    "--transfer-mib",
    "128",
    "--repetitions-min",
    "1",
    "--repetitions-max",
    "1",
)


def labs(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-m", "labs.cli", *words),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder(),
    )


def answer(*words: str) -> dict[str, Any]:
    """The JSON output of a command."""
    process = labs(*words, "--json")
    try:
        printed, said = process.communicate()
    finally:
        if process.poll() is None:  # this test took too long, and the next ones need the machines
            process.send_signal(signal.SIGINT)
            process.wait()
    assert process.returncode == 0, said
    found: dict[str, Any] = json.loads(printed)
    return found


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Size small with a shorter transfer: its JSON output and the folder of its runs."""
    runs = tmp_path_factory.mktemp("machines")
    return runs, answer(
        "run",
        "buffers",
        "--testbed",
        "vagrant",
        "--size",
        "small",
        "--repetitions-max",
        "6",
        "--into",
        str(runs),
    )


def test_buffers_size_small_has_six_conditions_at_200_mbit(
    study: tuple[Path, dict[str, Any]],
) -> None:
    _, said = study
    assert [row["condition"] for row in said["results"]] == CONDITIONS
    shaped = [row["link"]["asked"] for row in said["results"] if row["condition"] != "unshaped"]
    assert {asked["rate_mbit"] for asked in shaped} == {200}
    assert {asked["delay_ms"] for asked in shaped} == {0, 200}


def test_runs_describe_both_machines(study: tuple[Path, dict[str, Any]]) -> None:
    runs, _ = study
    for folder_ in runs.glob("buffers-default-*"):
        run = json.loads((folder_ / "run.json").read_text())
        assert {"server.nginx", "client.linux", "server.machine"} <= set(run["inputs"]["tools"])
        assert run["tools"]["server.linux"].startswith("Linux ")
        clocks = json.loads((folder_ / "clocks.json").read_text())
        assert set(clocks) == {"before", "after"}


def test_ss_of_the_machines_has_no_unknown_field(study: tuple[Path, dict[str, Any]]) -> None:
    runs, _ = study
    texts = [path.read_text() for path in runs.glob("buffers-*/*/ss.txt")]
    sockets = [socket for text in texts for block in blocks(text) for socket in block.sockets]
    assert len(texts) >= 2 * len(CONDITIONS) and sockets
    assert {token for socket in sockets for token in socket.unknown} == set()


def test_testbeds_agree(study: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Conditions whose interval is narrow enough; at this rate none may differ."""
    if reason := no_kernel(DEFAULT_KERNEL):
        pytest.skip(reason)
    runs, _ = study
    answer(
        "run",
        "buffers",
        "--only",
        ",".join(CONDITIONS),
        "--rate-mbit",
        "200",
        "--transfer-mib",
        "128",
        "--into",
        str(tmp_path),
    )
    process = labs("runs", "compare", str(tmp_path), str(runs), "--json")
    printed, said = process.communicate()
    rows = {row["condition"]: row for row in json.loads(printed)["conditions"]}
    assert set(rows) == set(CONDITIONS), said
    assert rows.pop("unshaped")["verdict"] == "not compared"
    assert rows["default"]["verdict"] == "agree", rows["default"]
    assert not [row for row in rows.values() if row["verdict"] == "part"]
    assert process.returncode == (
        0 if all(row["verdict"] == "agree" for row in rows.values()) else 5
    )


def in_the_middle(process: subprocess.Popen[str], on: On) -> None:
    """Wait until the client is fetching."""
    for _ in range(IN_THE_MIDDLE_S):
        if "fetch.py" in on("client", "pgrep", "-a", "python3"):
            return
        assert process.poll() is None, process.communicate()
        time.sleep(1)
    raise AssertionError("no run came to its middle")


def put_back(on: On, *, folders: bool = True) -> None:
    """Everything on the machines is as it was, within seconds; a machine that died keeps its
    folder until the next run."""
    for _ in range(10):
        shaped = on("server", "/usr/sbin/tc", "qdisc", "show", "dev", DEVICE)
        rmem = on("client", "cat", "/proc/sys/net/ipv4/tcp_rmem").split()
        running = [on(name, "pgrep", "-x", "nginx|tcpdump") for name in NAMES]
        kept = [on(name, "ls", "-d", f"/var/tmp/labs-{name}") for name in NAMES]
        left = [*running, *(kept if folders else ())]
        if "delay 200ms" in shaped and rmem[1:2] == ["131072"] and not any(left):
            return
        time.sleep(1)
    raise AssertionError((shaped, rmem, running, kept))


def drop_ssh(process: subprocess.Popen[str], on: On) -> None:
    """End the run's connection to the server, as a network that breaks would: the tests' own,
    which asks for it, is older."""
    on("server", "sudo", "pkill", "-n", "-f", "^sshd: vagrant@notty")


def interrupt(process: subprocess.Popen[str], on: On) -> None:
    process.send_signal(signal.SIGINT)


def fill_the_disk(process: subprocess.Popen[str], on: On) -> None:
    """Fill the disk: the part of ordinary users, then the blocks reserved for root."""
    on(
        "client",
        "sudo",
        "sh",
        "-c",
        "fallocate -l $(df --output=avail -B1 /var/tmp | tail -1) "
        "/var/tmp/filler; dd if=/dev/zero of=/var/tmp/filler bs=1M oflag=append conv=notrunc",
    )


FAULTS: dict[str, tuple[Callable[..., None], int, str]] = {
    "ssh drops": (drop_ssh, 4, "was lost"),
    "^C": (interrupt, INTERRUPTED, "stopped"),
    "a full disk": (fill_the_disk, 4, "No space left on device"),
}


@pytest.fixture(scope="module")
def shaped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run."""
    runs = tmp_path_factory.mktemp("shaped")
    answer(*ONCE, "--only", "shaped", "--into", str(runs))
    return runs


@pytest.mark.parametrize("fault", FAULTS)
def test_failures_are_reported_and_undone(fault: str, on: On, shaped: Path, tmp_path: Path) -> None:
    """The earlier run is kept, one line says what happened, and the same command resumes."""
    cause, code, words = FAULTS[fault]
    shutil.copytree(shaped, tmp_path, dirs_exist_ok=True)
    (before,) = tmp_path.glob("buffers-shaped-*/seal.json")
    made_ns = before.stat().st_mtime_ns
    again = (*ONCE, "--only", "shaped,both", "--into", str(tmp_path))
    process = labs(*again)
    try:
        in_the_middle(process, on)
        cause(process, on)
        _, said = process.communicate(timeout=180)
    finally:
        on("client", "sudo", "rm", "-f", "/var/tmp/filler")
        process.kill()
    assert process.returncode == code, said
    assert words in said.strip().splitlines()[-1]
    put_back(on)
    assert before.exists() and not list(tmp_path.glob("buffers-both-*"))
    answer(*again)
    assert len(list(tmp_path.glob("buffers-*/seal.json"))) == 2
    assert before.stat().st_mtime_ns == made_ns


def test_run_on_a_machine_that_dies(on: On, tmp_path: Path) -> None:
    """The last test, because the machine is restarted."""
    one = (*ONCE, "--only", "both", "--into", str(tmp_path))
    process = labs(*one)
    in_the_middle(process, on)
    subprocess.run(
        ("vagrant", "halt", "--force", "client"),
        cwd=folder(),
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    _, said = process.communicate(timeout=180)
    assert process.returncode == 4
    assert "the connection to client (client) was lost" in said.strip().splitlines()[-1]
    doctor = labs("doctor", "vagrant", "--json").communicate()[0]
    assert json.loads(doctor)["testbeds"][0]["next"] == "vagrant up client"
    subprocess.run(
        ("vagrant", "up", "client"),
        cwd=folder(),
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    put_back(on, folders=False)
    answer(*one)
