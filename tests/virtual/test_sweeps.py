"""Article 5, live: transfers by iperf3 with socket buffers of any size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import model, model_errors
from labs.catalog import find
from labs.errors import RunFailed
from labs.experiments.sweeps.conditions import PORT, QUEUE_PACKETS, condition
from labs.experiments.sweeps.conditions import Parameters as Sweeps
from labs.experiments.sweeps.experiment import INTERRUPTED, RESET
from labs.experiments.sweeps.settings import Settings
from labs.guest.condition import Condition
from labs.guest.testbed.link import Link
from labs.guest.units import KIB, MIB
from labs.launch.launch import run as perform
from labs.read.readings.arrivals import arrivals
from labs.read.readings.goodput import own_socket
from labs.read.runs.run import Run
from tests.kept_runs import make

KERNELS = [
    pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.1", "6.12", "7.2")
]
MIN_RCVBUF, MIN_SNDBUF = 2304, 4608
"""SOCK_MIN_RCVBUF = TCP_SKB_MIN_TRUESIZE = 2,048 + 256, the size of struct sk_buff in whole cache
lines; SOCK_MIN_SNDBUF is twice that (include/net/sock.h)."""
LINK = Link(rate_mbit=1000.0, delay_ms=8.0, queue_packets=QUEUE_PACKETS, port=PORT)
LINE_BYTES_S = 125e6 * 1448 / 1514
"""Payload of full frames at 1000 Mbit/s."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of all tests in this file; each is performed once."""
    return tmp_path_factory.mktemp("runs")


def runs(folder: Path, only: str, kernel: str = "6.1", **given: Any) -> dict[str, Run]:
    """The runs of a study by condition."""
    p = Sweeps(runs=str(folder), kernel=kernel, size="full", only=only, **given)
    return {run.condition: run for run in make(find("sweeps"), p).runs}


def run_of(folder: Path, one: Condition) -> Run:
    """The run of a condition that is not among those of the lab."""
    lab = replace(find("sweeps"), all_conditions=lambda p: (one,), groups=(), _conditions={})
    return make(lab, Sweeps(runs=str(folder))).runs[0]


def granted(run: Run) -> dict[tuple[str, str], int | None]:
    return {(one.host, one.socket): one.granted_bytes for one in run.buffers}


def report(run: Run, host: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.file(f"{host}/iperf3.json").read_text())
    return found


def in_flight_bytes(run: Run) -> int:
    """The most payload that the sender had sent and not acknowledged, over all samples."""
    own = own_socket(run.samples("server"), "bytes_sent")
    return int((own["bytes_sent"] - own["bytes_acked"]).max())


def test_a_transfer_repeats_to_the_byte(tmp_path: Path) -> None:
    """The reports of iperf3, the packets and the samples included."""
    one, other = (
        perform(
            find("sweeps"),
            Sweeps(runs=str(tmp_path / name), size="full", only="both-64k", transfer_mib=1),
        ).runs[0]
        for name in ("one", "other")
    )
    assert one.digest == other.digest


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_request_of_1_kib_is_granted_the_kernels_minimum(folder: Path, kernel: str) -> None:
    """A5.3: not 2 KiB but the minimum, which is what both ends use."""
    run = runs(folder, "w-1k", kernel)["w-1k"]
    assert granted(run) == {
        (host, socket): size
        for host in ("client", "server")
        for socket, size in (("receive", MIN_RCVBUF), ("send", MIN_SNDBUF))
    }
    sender = own_socket(run.samples("server"), "bytes_sent")
    receiver = own_socket(run.samples("client"), "bytes_received")
    assert set(sender["sndbuf_bytes"]) == {MIN_SNDBUF}
    assert set(receiver["rcvbuf_bytes"]) == {MIN_RCVBUF}
    assert arrivals(run).payload_bytes >= 64 * KIB


@pytest.mark.parametrize("kernel", KERNELS)
def test_setsockopt_doubles_a_request_from_its_minimum_to_its_maximum(
    folder: Path, kernel: str
) -> None:
    """A5.2 to A5.4. No request overflows: sock_setsockopt() takes at most INT_MAX / 2 before it
    doubles, so 1 GiB is granted 2 GiB less two bytes if the core maximum allows it."""
    found = runs(folder, "setsockopt,setsockopt-raised", kernel)
    minimum = {"receive": MIN_RCVBUF, "send": MIN_SNDBUF}
    largest = 4 * MIB if kernel == "7.2" else 212_992  # since 6.18
    for name, maximum in (("setsockopt", largest), ("setsockopt-raised", (2**31 - 1) // 2)):
        assert len(found[name].buffers) == 32
        for one in found[name].buffers:
            assert one.requested_bytes is not None
            doubled = 2 * min(one.requested_bytes, maximum)
            assert one.granted_bytes == max(doubled, minimum[one.socket]), one


def test_a_request_beyond_the_core_maximum_is_refused_by_iperf3(folder: Path) -> None:
    """A5.4: the kernel grants 2 * 212,992 bytes, which is enough for a request of 256 KiB; for
    4 MiB iperf3 gives up, and 1 GiB it does not even request."""
    found = runs(folder, "w-256k,w-4m,w-1g")
    assert set(granted(found["w-256k"]).values()) == {2 * 212_992}
    assert "socket buffer size not set correctly" in report(found["w-4m"], "client")["error"]
    said = found["w-1g"].file("client/iperf3.txt").read_text()
    assert "socket buffer size too large (maximum = 536870912 bytes)" in said
    for name in ("w-4m", "w-1g"):
        assert set(granted(found[name]).values()) == {None}


def test_a_refusal_that_the_condition_does_not_expect_fails_the_run(folder: Path) -> None:
    one = condition("both-4m", LINK, Settings(window_kib=4096))
    with pytest.raises(RunFailed) as error:
        run_of(folder, replace(one, sysctls={}))
    assert str(error.value) == (
        "sweeps both-4m: iperf3 on client refuses buffers of 4096 KiB: socket buffer size not set "
        "correctly. Allowed: what net.core.rmem_max and wmem_max grant. Raise them, or request less"
    )


def test_one_sided_buffers_leave_the_other_end_automatic(folder: Path) -> None:
    """tcp_wmem or tcp_rmem fix one buffer at what a request of 256 KiB would be granted."""
    found = runs(folder, "sender-256k,receiver-256k", transfer_mib=8)
    for name, host, column, counter in (
        ("sender-256k", "server", "sndbuf_bytes", "bytes_sent"),
        ("receiver-256k", "client", "rcvbuf_bytes", "bytes_received"),
    ):
        fixed = set(own_socket(found[name].samples(host), counter)[column])
        assert fixed == {512 * KIB}
    receiver = own_socket(found["sender-256k"].samples("client"), "bytes_received")
    assert receiver["rcvbuf_bytes"].max() > 512 * KIB
    sender = own_socket(found["receiver-256k"].samples("server"), "bytes_sent")
    assert sender["sndbuf_bytes"].max() > sender["sndbuf_bytes"].iloc[0]


def test_the_knee_of_both_buffers_is_at_the_bdp(folder: Path) -> None:
    """A5.7 and A5.8, with a BDP of 1 MB: 256 KiB are granted twice as much, half of which, less a
    segment, is the window on 6.1: a quarter of the line. 1 MiB and more fill it. A packet of 64 KiB
    takes 0.52 ms on the line, by which a round trip of 8 ms may be longer."""
    found = runs(folder, "both-256k,both-1m,both-4m", transfer_mib=32)
    steady = {name: arrivals(run).steady_bytes_s or 0 for name, run in found.items()}
    window = 256 * KIB - 1448
    assert window / 8.52e-3 * 0.99 < steady["both-256k"] <= window / 8e-3
    for name in ("both-1m", "both-4m"):
        assert steady[name] == pytest.approx(LINE_BYTES_S, rel=0.005)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_held_partial_segment_lets_the_send_buffer_grow(folder: Path, kernel: str) -> None:
    """Writes of whole segments, and others without Nagle's algorithm, never have more in flight
    than the 128 KiB of sk_sndbuf and one write. A partial segment that Nagle holds is the tail of
    the queue, to which the next write appends without a check (tcp_sendmsg_locked())."""
    names = ("writes-14480-burst", "writes-16384-burst-nodelay", "writes-16384-burst")
    found = runs(folder, ",".join(names), kernel, transfer_mib=32)
    whole, nodelay, held = (found[name] for name in names)
    assert in_flight_bytes(whole) <= 128 * KIB + 14_480
    assert in_flight_bytes(nodelay) <= 128 * KIB + 16_384
    assert in_flight_bytes(held) > 8 * 128 * KIB
    faster = (arrivals(held).goodput_bytes_s or 0) / (arrivals(nodelay).goodput_bytes_s or 1)
    assert faster > 3
    sender = own_socket(held.samples("server"), "bytes_sent")
    assert set(sender["sndbuf_bytes"]) == {128 * KIB}


def test_a_transfer_is_interrupted_when_its_bytes_have_arrived(folder: Path) -> None:
    """Not before, and at most a quarter later, one step of 20 ms of the line included."""
    run = runs(folder, "default", transfer_mib=32)["default"]
    assert run.ended == "complete"
    for host in ("client", "server"):
        assert INTERRUPTED in report(run, host)["error"]
    received = report(run, "client")["end"]["sum_received"]["bytes"]
    assert 32 * MIB <= received <= 32 * MIB * 1.25 + 0.02 * 125e6
    assert arrivals(run).payload_bytes == pytest.approx(32 * MIB, abs=64 * KIB)


def test_a_server_may_see_the_reset_before_the_interruption(folder: Path) -> None:
    """The client closes both connections at once, and the server writes without a pause."""
    (run,) = runs(folder, "writes-16384-burst-nodelay").values()
    assert any(words in report(run, "server")["error"] for words in (INTERRUPTED, RESET))
    assert INTERRUPTED in report(run, "client")["error"]
    assert granted(run)["server", "send"] == 2 * 64 * KIB


def test_a_transfer_that_is_too_slow_ends_at_its_limit(folder: Path) -> None:
    slow = replace(LINK, rate_mbit=1.0)
    run = run_of(folder, condition("slow", slow, Settings(transfer_bytes=32 * MIB, limit_s=2.0)))
    assert run.ended == "limit"
    assert 2 <= arrivals(run).took_s < 3  # what is in flight still arrives


def test_a_buffer_that_holds_the_whole_transfer_lets_nothing_poll(folder: Path) -> None:
    """With -n the sender would poll for the 16 s that 2 MB take at 1 Mbit/s, and be ended."""
    slow = replace(LINK, rate_mbit=1.0)
    settings = Settings(transfer_bytes=2_000_000, sndbuf_kib=16_384, limit_s=60.0)
    run = run_of(folder, condition("patient", slow, settings))
    assert run.ended == "complete"
    assert arrivals(run).goodput_bytes_s == pytest.approx(125e3 * 1448 / 1514, rel=0.01)


def test_make_model_measures_and_predicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two points of set a: one that the link limits, one that a small receive buffer does."""
    words = ["--set", "a", "--only", "7,34", "--into", str(tmp_path)]
    assert model.main([*words, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["point"]["name"] for one in listed] == ["a-007", "a-034"]
    for one in listed:
        assert one["disturbed"] == one["reason"] == ""
        assert abs(one["steady_error_pct"]) < model_errors.GOAL_WORST_PCT
    assert json.loads((tmp_path / "model-a.json").read_text()) == listed
    assert "Error of the predicted transfer" in (tmp_path / "model-a.html").read_text()
    assert model.main(words) == 0
    assert "all points" in capsys.readouterr().out
