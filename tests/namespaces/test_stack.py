"""The lab `stack` on this machine: settings read back, requests counted twice, and kill -9."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.cli.__main__ import main
from labs.drive.kernel.boot import PATH
from labs.drive.testbed.namespaces import JOURNALS, OnThisMachine
from labs.errors import RunFailed
from labs.experiments.stack.experiment import WARM_UP_REQUESTS, measure
from labs.experiments.stack.knobs import set_device, set_rules
from labs.experiments.stack.places import allowed_cpus, set_places
from labs.experiments.stack.results import knobs, latencies, server_of
from labs.experiments.stack.settings import APART, CONNTRACK, GRO, IDLE, OFF, SAME, Settings
from labs.guest.bench import Bench
from labs.guest.testbed.link import Link
from labs.guest.testbed.namespaces import NAMESPACES
from labs.launch.launch import Made, run
from labs.read.parse.http_loads import Load
from labs.read.runs.raw_files import WRK

LAB = find("stack")
TOOLS = ("gcc", "wrk", "nft", "ethtool", "taskset")
LACKING = [name for name in TOOLS if shutil.which(name, path=PATH) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")
ONLY = (
    *("polling-c1", "blocking-c1", "polling-many", "polling-rules-100-c1", "busy-poll-c1"),
    *("gro-c1", "offloads-off-c1", "queues-2-many", "rx-usecs-0-c1", "same-cpu-c1"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, alone: None) -> Made:
    p = LAB.Parameters(
        only=",".join(ONLY),
        repetitions_min=1,
        repetitions_max=1,
        runs=str(tmp_path_factory.mktemp("runs")),
    )
    return run(LAB, p)


def test_run_counts_requests_alike_at_both_ends(made: Made) -> None:
    """The histogram of wrk, without what it adds, has one entry per response. The server has also
    counted the warm-up, and at most one request per connection whose response came too late."""
    for one in made.runs:
        said: Load = one.read("client/wrk.txt", WRK)
        assert sum(said.latencies_us.values()) == said.requests == latencies(one).iloc[-1]
        server = server_of(one)
        assert server is not None
        assert (
            0
            <= server.requests - WARM_UP_REQUESTS - said.requests
            <= one.settings_as(Settings).connections
        )
        assert sum(thread.bad for thread in server.threads) == said.failed == 0


def test_run_polls_or_blocks(made: Made) -> None:
    """epoll_wait with timeout 0 returns without an event; with 1000 ms it does not under load."""
    by_name = {one.condition: one for one in made.runs}
    polling, blocking = (server_of(by_name[name]) for name in ("polling-c1", "blocking-c1"))
    assert polling is not None and blocking is not None
    assert polling.threads[0].empty_waits > polling.requests
    assert blocking.threads[0].empty_waits < 10
    assert blocking.voluntary_switches > 0.5 * blocking.requests


@pytest.mark.parametrize(
    ("condition", "factor", "found", "effective"),
    [
        ("polling-rules-100-c1", "rules", "100", True),
        ("gro-c1", "offloads", "gro on", True),
        ("offloads-off-c1", "offloads", "tso off gso off gro off sg off", True),
        ("queues-2-many", "queues", "2", True),
        ("rx-usecs-0-c1", "rx_usecs", "unknown", False),  # veth has no interrupts to delay
        ("polling-c1", "waiting", "polling", True),
        ("blocking-c1", "waiting", "blocking", True),
    ],
)
def test_run_reads_back_every_setting(
    made: Made, condition: str, factor: str, found: str, effective: bool
) -> None:
    (one,) = (run for run in made.runs if run.condition == condition)
    (setting,) = (each for each in knobs(one) if each.factor == factor)
    assert (setting.found, setting.effective) == (found, effective)
    assert bool(setting.because) is not effective


def test_run_names_the_context_that_busy_polling_needs(made: Made) -> None:
    """SO_INCOMING_NAPI_ID is not 0 on veth with NAPI (GRO), and 0 without."""
    by_name = {one.condition: server_of(one) for one in made.runs}
    napi = {
        name: said and any(one.napi_id for one in said.threads) for name, said in by_name.items()
    }
    assert napi["busy-poll-c1"] and napi["gro-c1"] and not napi["polling-c1"]


@pytest.fixture
def testbed(alone: None) -> Iterator[OnThisMachine]:
    with OnThisMachine(Link(port=8080)) as opened:
        yield opened


@pytest.mark.parametrize("rules", [IDLE, "1", "100", CONNTRACK])
def test_set_rules_reads_back_what_nft_lists(testbed: OnThisMachine, rules: str) -> None:
    (found,) = set_rules(testbed.server, rules)
    assert (found.found, found.effective) == (rules, True)
    assert testbed.client.run(("nft", "list", "ruleset")).text == ""


def test_measure_names_a_port_in_use(testbed: OnThisMachine, tmp_path: Path) -> None:
    (condition,) = LAB.conditions(LAB.Parameters(only="polling-c1"))
    bench = Bench(testbed, condition, tmp_path, print)
    listener = ("python3", "-m", "http.server", str(condition.link.port))
    bench.serve(testbed.server, listener, condition.link.port, "other.txt")
    with pytest.raises(RunFailed, match="port 8080 of server is in use") as error:
        measure(bench, condition)
    assert "\n" not in str(error.value)


def test_set_device_marks_more_queues_than_there_are(testbed: OnThisMachine) -> None:
    (found,) = set_device(testbed.server, testbed.client, Settings(queues=4096))
    assert not found.effective and found.because and found.found == "1"


def test_set_device_turns_offloads_off_and_on_again(testbed: OnThisMachine) -> None:
    for which in (OFF, GRO):
        (found,) = set_device(testbed.server, testbed.client, Settings(offloads=which))
        assert found.effective


def test_set_device_defers_the_interrupts_of_its_namespace_alone(testbed: OnThisMachine) -> None:
    """`writing` mounts the /sys of the namespace; the one of this machine stays as it is."""
    here = sorted(Path("/sys/class/net").glob("*/gro_flush_timeout"))
    before = [path.read_text() for path in here]
    (found,) = set_device(testbed.server, testbed.client, Settings(deferred_irqs=True))
    assert found.effective and found.found == "napi_defer_hard_irqs 10 gro_flush_timeout 20000"
    assert before == [path.read_text() for path in here]


def test_set_places_moves_receive_processing_and_finds_no_interrupts(
    testbed: OnThisMachine,
) -> None:
    cpus = allowed_cpus(testbed.server)
    rps, *more = set_places(testbed.server, Settings(rps=SAME), cpus)
    assert rps.effective and int(rps.found, 16) == 1 << cpus[0] and not more
    (interrupts,) = set_places(testbed.server, Settings(interrupts=APART), cpus)
    assert not interrupts.effective and "no interrupts of its own" in interrupts.because


def state() -> dict[str, Any]:
    """What a run could leave on this machine."""

    def said(*argv: str) -> str:
        return subprocess.run(argv, capture_output=True, text=True).stdout

    sysctls = {
        str(path): path.read_text()
        for folder in ("core", "ipv4")
        for path in Path("/proc/sys/net", folder).glob("*")
        if path.is_file()
        and os.access(path, os.R_OK)
        and path.stat().st_mode & 0o200
        and path.name not in ("netdev_rss_key", "tcp_fastopen_key")
    }
    return {
        "rules": [
            line for line in said("nft", "list", "ruleset").split("\n") if "counter" not in line
        ],
        "links": said("ip", "-o", "link"),
        "sysctls": sysctls,
        "namespaces": sorted(path.name for path in NAMESPACES.glob("*")),
        "journals": sorted(path.name for path in JOURNALS.glob("*")),
        "servers": said("pgrep", "-x", "epoll_server"),
    }


def test_next_run_undoes_what_kill_9_left(tmp_path: Path, alone: None) -> None:
    words = ["run", "stack", "--only", "polling-rules-100-c1", "--into", str(tmp_path)]
    words += ["--repetitions-min", "1", "--repetitions-max", "1"]
    before = state()
    first = subprocess.Popen(
        (sys.executable, "-m", "labs.cli", *words, "--duration-s", "30"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until_loaded(before)
    killed = state()
    assert killed != before and len(killed["namespaces"]) == len(before["namespaces"]) + 2
    for pid in (first.pid, *children(first.pid)):
        os.kill(pid, signal.SIGKILL)
    first.wait()
    assert state() != before
    assert main(words) == 0
    assert state() == before


def until_loaded(before: dict[str, Any]) -> None:
    for _ in range(600):
        if subprocess.run(("pgrep", "-x", "wrk"), capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError("wrk did not start within 60 s")


def children(pid: int) -> list[int]:
    """The processes of a run that are its own: the launcher's child, which drives the hosts."""
    said = subprocess.run(("pgrep", "-P", str(pid)), capture_output=True, text=True).stdout
    return [int(word) for word in said.split()]


def test_allowed_cpus_are_those_of_this_process(testbed: OnThisMachine) -> None:
    assert set(allowed_cpus(testbed.server)) == os.sched_getaffinity(0)


def test_stack_json_has_every_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = "polling-c1,blocking-c1,rx-usecs-0-c1,rx-usecs-1-c1"
    words = ["run", "stack", "--only", only, "--into", str(tmp_path), "--json"]
    assert main([*words, "--repetitions-min", "1", "--repetitions-max", "1"]) == 0
    said = json.loads(capsys.readouterr().out)
    effects = {one["condition"]: one for one in said["effects"]}
    assert effects["blocking-c1"]["effective"] is True
    assert effects["rx-usecs-1-c1"]["effective"] is False
    assert all(type(one["effective"]) is bool for one in said["settings"])
