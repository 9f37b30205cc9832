"""Interrupt delay (`ethtool -C rx-usecs`) on the device behind QEMU's user network.

The load runs on the host and reaches the server through a forwarded port, so a round trip is
shorter than between two machines. Needs an e1000e there:

    LAB_NIC=e1000e LAB_CPUS=2 setup/test-vm.sh tests/vm/test_interrupt_delay.py
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath

import numpy
import pytest

from labs.drive.compiled import compiled
from labs.drive.testbed.ssh import SshHost
from labs.drive.testbed.vagrant import DEVICE_SETTINGS, FOLDER, machine
from labs.drive.testbed.vagrant_up import machines_folder
from labs.experiments.stack.experiment import LUA, carried
from labs.experiments.stack.knobs import set_device
from labs.experiments.stack.places import allowed_cpus, set_places
from labs.experiments.stack.settings import APART, Settings
from labs.guest.bench import PROGRAMS
from labs.read.parse.http_loads import wrk
from labs.read.stats.repetitions import of_ratio
from tests.vm.conftest import On

pytestmark = pytest.mark.timeout(1200)
WAY_IN = "10.0.2.15"
"""The address of a machine on QEMU's user network (vagrant/root)."""
PORT = 8080
BLOCKS = 10
LOAD_S = 2
Medians = dict[int, list[float]]
"""Median latencies in µs by rx-usecs, one per block."""
# A delay counts from the previous interrupt (hw/net/e1000e_core.c, e1000e_postpone_interrupt), so
# one that is shorter than a round trip postpones nothing. A round trip took 150 to 165 µs.
SHORT_US = 100
LONG_US = (250, 500)
# The medians of blocks with equal settings differed by up to 4 % from their median.
EQUAL_WITHIN = 0.1


@pytest.fixture(scope="module")
def server(ssh_config: Path, on: On) -> Iterator[SshHost]:
    """The server, reached over its device on the user network, which must be an e1000e. Its
    interrupts are not on the CPU that polls, because there a round trip takes 220 to 320 µs."""
    shown = on("server", "ip", "-o", "-4", "address", "show", "to", WAY_IN).split()
    assert shown, f"no device of the server has {WAY_IN}"
    device = shown[1]
    driver = on("server", "/usr/sbin/ethtool", "-i", device).split("\n")[0]
    if driver != "driver: e1000e":
        pytest.skip(f"{driver} at {WAY_IN}; its interrupts cannot be delayed")
    login = machine("server", ssh_config).login
    folder = PurePosixPath(FOLDER.format("server"))
    source = DEVICE_SETTINGS.read_bytes()
    with closing(SshHost("server", WAY_IN, device, login, folder, [], [])) as host:
        host.open()
        words = (host.python, "-I", "-S", "-")
        before = host.run((*words, "read", device), stdin=source).text.strip()
        restoring = (*words, "restore", device, before)
        host.undo_if_lost(restoring, source)
        try:
            (knob,) = set_places(host, Settings(interrupts=APART), allowed_cpus(host))
            if not knob.effective:
                pytest.skip(f"interrupts cannot have a CPU of their own: {knob.because}")
            yield host
        finally:
            host.run(restoring, stdin=source)


@pytest.fixture(scope="module")
def url(server: SshHost) -> Iterator[str]:
    """The polling server behind a port of this host that is forwarded to it."""
    program = carried(server, compiled(PROGRAMS / "epoll_server"))
    options = ("--threads", "1", "--timeout-ms", "0", "--cpus", "0")
    process = server.start((program, "--address", WAY_IN, "--port", str(PORT), *options))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        said = monitor(f"hostfwd_add wayin tcp:127.0.0.1:{port}-:{PORT}").strip()
        assert not said, f"QEMU did not add the port: {said}"
        yield f"http://127.0.0.1:{port}/data"
    finally:
        monitor(f"hostfwd_remove wayin tcp:127.0.0.1:{port}")
        process.stop()


def monitor(command: str) -> str:
    """What QEMU's monitor of the server prints."""
    (known,) = machines_folder().glob("server/libvirt/id")
    words = ("virsh", "-c", "qemu:///system", "qemu-monitor-command", known.read_text(), "--hmp")
    done = subprocess.run((*words, command), capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def medians(server: SshHost, url: str, tmp_path_factory: pytest.TempPathFactory) -> Medians:
    """Blocks of every delay, the order reversed in every second block."""
    script = tmp_path_factory.mktemp("load") / "histogram.lua"
    script.write_text(LUA)
    delays = (0, SHORT_US, *LONG_US)
    found: Medians = {delay: [] for delay in delays}
    median_us(url, script)  # a warm-up
    for block in range(BLOCKS):
        for delay in delays if block % 2 == 0 else reversed(delays):
            (knob,) = set_device(server, server, Settings(rx_usecs=delay))
            assert knob.effective, knob
            found[delay].append(median_us(url, script))
    return found


def median_us(url: str, script: Path) -> float:
    """The median latency of one connection."""
    words = ("wrk", "-t", "1", "-c", "1", "-d", f"{LOAD_S}s", "-s", str(script), url)
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    counts = wrk(done.stdout).latencies_us
    return float(numpy.median(numpy.repeat(list(counts), list(counts.values()))))


@pytest.mark.parametrize("delay", LONG_US)
def test_delay_longer_than_a_round_trip_raises_the_median(delay: int, medians: Medians) -> None:
    found = of_ratio(medians[delay], medians[0])
    assert found is not None and found.low > 1, (found, medians)


def test_delay_shorter_than_a_round_trip_does_not(medians: Medians) -> None:
    assert min(medians[0]) > SHORT_US
    found = of_ratio(medians[SHORT_US], medians[0])
    assert found is not None and found.low > 1 - EQUAL_WITHIN, (found, medians)
    assert found.high < 1 + EQUAL_WITHIN, (found, medians)
