"""Flows over a path with queues, in a real kernel: what a run leaves, and that it repeats."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labs import catalog
from labs.errors import LabError
from labs.guest.flows import FIRST_PORT, SERVER_PORT, traffic_from_json
from labs.guest.testbed.path import QUEUES
from labs.launch.launch import run as launch
from labs.read.lab import Lab
from labs.read.parse.qdisc_samples import queue_samples
from labs.read.runs.run import Run, open_run
from tests.kept_runs import make

KERNELS = [
    "6.1",
    *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")),
]
SOURCE = '''"""Flows of a test."""
import json
from pathlib import Path
from labs.guest.flows import Flow, Requests, Traffic
from labs.drive.parameters import LabParameters as Parameters
from labs.guest.testbed.path import QUEUES, Change, Direction, NetworkPath, Queue
from labs.guest.traffic import lines, measure, tools

BACK = Direction(delay_ms=10)
TWO = (Flow(), Flow("bbr", extra_delay_ms=30))


def through(queue):
    return Traffic(NetworkPath(Direction(10, 10, queue=queue), BACK), TWO, 1)


EVERY = {
    **{kind: through(Queue(kind)) for kind in QUEUES},
    "all": Traffic(
        NetworkPath(
            Direction(10, 10, drop_every=50, queue=Queue("codel", ecn=True)),
            Direction(2, 10),
            (Change(1, rate_mbit=4), Change(1.5, "up", delay_ms=40)),
        ),
        (
            Flow(),
            Flow("bbr", extra_delay_ms=30),
            Flow("dctcp", ecn=True),
            Flow("reno", "up", start_s=0.5, stop_s=1.5),
            Flow(size_bytes=50_000, rcvbuf_bytes=20_000),
            Flow(app_mbit=0.5, chunk_s=0.2),
            Flow(pause_at_s=0.5, pause_s=0.5),
        ),
        2,
        Requests(every_ms=100, size_bytes=3_000),
    ),
    "lossy": Traffic(
        NetworkPath(Direction(10, 10, jitter_ms=2, loss_pct=3, loss_run=3), BACK), TWO, 2
    ),
    "nowhere": Traffic(NetworkPath(Direction(10)), (Flow("cubic2"),), 1),
}


def conditions(p):
    return tuple(traffic.condition(name, p.testbed) for name, traffic in EVERY.items())


class Results:
    def __init__(self, run):
        pass
'''


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    path = tmp_path_factory.mktemp("lab") / "someflows.py"
    path.write_text(SOURCE)
    return catalog.find(str(path))


def made(lab: Lab, into: Path, only: str) -> Run:
    p = lab.Parameters(runs=str(into), only=only, size="full")
    (folder,) = make(lab, p).file.folders()
    return open_run(folder)


@pytest.fixture(scope="module")
def everything(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made(lab, tmp_path_factory.mktemp("runs"), "all")


def reports(run: Run, host: str, role: str) -> dict[int, dict[str, Any]]:
    flows = json.loads(run.text(f"{host}/stream.json"))["flows"]
    return {one["flow"]: one for one in flows if one["role"] == role}


def received(run: Run) -> dict[int, dict[str, Any]]:
    return reports(run, "client", "receive") | reports(run, "server", "receive")


def payloads(run: Run, host: str) -> Counter[int]:
    """The bytes of payload of each flow in a capture, retransmissions counted once."""
    found: Counter[int] = Counter()
    first: dict[int, int] = {}
    for packet in packets(run.path / host / "capture.pcap"):
        if packet["down"] == (host == "client") and not packet["rst"]:
            start = first.setdefault(packet["flow"], packet["seq"] + packet["syn"])
            end = (packet["seq"] + packet["syn"] + packet["length"] - start) % 2**32
            if packet["length"]:
                found[packet["flow"]] = max(found[packet["flow"]], end)
    return found


def both(run: Run) -> dict[int, int]:
    """The payload of each flow where it was received."""
    sides = {"down": payloads(run, "client"), "up": payloads(run, "server")}
    flows = traffic_from_json(run.condition_asked.plan).flows
    return {number: sides[flow.direction][number] for number, flow in enumerate(flows)}


def packets(path: Path) -> list[dict[str, Any]]:
    """The flows' packets in a capture: Ethernet, IPv4 and TCP headers, read by their formats."""
    content = path.read_bytes()
    found = []
    at = 24
    while at < len(content):
        size = int.from_bytes(content[at + 8 : at + 12], "little")
        frame = content[at + 16 : at + 16 + size]
        at += 16 + size
        ip = frame[14:]
        tcp = ip[4 * (ip[0] & 15) :]
        ports = int.from_bytes(tcp[0:2]), int.from_bytes(tcp[2:4])
        if SERVER_PORT not in ports:
            continue
        down = ports[0] == SERVER_PORT
        found.append(
            {
                "flow": ports[down] - FIRST_PORT,
                "down": down,
                "seq": int.from_bytes(tcp[4:8]),
                "length": int.from_bytes(ip[2:4]) - 4 * (ip[0] & 15) - 4 * (tcp[12] >> 4),
                "ce": ip[1] & 3 == 3,
                "syn": bool(tcp[13] & 2),
                "rst": bool(tcp[13] & 4),
                "total": int.from_bytes(ip[2:4]),
            }
        )
    return found


def test_captures_have_what_the_programs_received(everything: Run) -> None:
    on_the_wire = both(everything)
    for number, one in received(everything).items():
        fin = one["ended"] == "size"  # the kernel counts a FIN as one byte
        assert one["bytes"] == one["kernel_bytes"] - fin > 20_000
        # After a reset, what had arrived behind a lost packet is discarded.
        assert one["bytes"] <= on_the_wire[number]
        if one["ended"] == "size":
            assert on_the_wire[number] == one["bytes"] == 50_000


def test_packets_at_the_queue_are_packets_of_the_wire(everything: Run) -> None:
    sizes = {one["total"] for one in packets(everything.path / "server" / "capture.pcap")}
    assert max(sizes) == 1500


def test_both_directions_were_measured_and_are_as_asked(everything: Run) -> None:
    path = json.loads(everything.text("path.json"))
    for name, rate_mbit in (("down", 10), ("up", 2)):
        assert path[name]["ok"], path[name]["problems"]
        assert path[name]["measured"]["rate_mbit"] == pytest.approx(rate_mbit, rel=0.02)
        assert path[name]["measured"]["rtt_ms"] == pytest.approx(20, abs=0.1)


def test_flows_have_their_congestion_control_and_their_delay(everything: Run) -> None:
    traffic = traffic_from_json(everything.condition_asked.plan)
    path = json.loads(everything.text("path.json"))
    connected = reports(everything, "client", "receive") | reports(everything, "client", "send")
    for number, flow in enumerate(traffic.flows):
        assert connected[number]["control"] == flow.control
        took_ms = (connected[number]["begin_ns"] - path["begin_ns"]) / 1e6 - 1e3 * flow.start_s
        # The answer to a SYN may wait in the queue behind the first packets of other flows.
        assert 20 + flow.extra_delay_ms <= took_ms < 120 + flow.extra_delay_ms


def test_flows_end_as_planned(everything: Run) -> None:
    ended = {number: one["ended"] for number, one in received(everything).items()}
    assert ended == {0: "stop", 1: "stop", 2: "stop", 3: "stop", 4: "size", 5: "stop", 6: "stop"}


def test_only_a_flow_with_ecn_has_marks(everything: Run) -> None:
    marks = Counter(
        one["flow"]
        for one in packets(everything.path / "client" / "capture.pcap")
        if one["ce"] and one["down"]
    )
    assert set(marks) == {2}


def test_every_fiftieth_packet_is_dropped(everything: Run) -> None:
    shown = json.loads(everything.text("router/queues-after.json"))
    ingress = next(one for one in shown if one["kind"] == "ingress" and one["dev"] == "eth0")
    netems = [one for one in shown if one["kind"] == "netem" and one["dev"] == "ifb-down"]
    before = json.loads(everything.text("router/queues-before.json"))
    counted = [one for one in before if one["kind"] == "netem" and one["dev"] == "ifb-down"]
    passed = sum(one["packets"] for one in netems) - sum(one["packets"] for one in counted)
    arrived = passed + ingress["drops"]
    assert ingress["drops"] == pytest.approx(arrived / 50, abs=1)


def test_changes_take_effect_at_their_moments(everything: Run) -> None:
    path = json.loads(everything.text("path.json"))
    moments = [(one["at_ns"] - path["begin_ns"]) / 1e9 for one in path["changes"]]
    assert moments == pytest.approx([1, 1.5], abs=0.01)
    samples = queue_samples((everything.path / "router" / "queue-down.bin").read_bytes())

    def rate_mbit(from_s: float, to_s: float) -> float:
        inside = [one for one in samples if from_s <= (one.at_ns - path["begin_ns"]) / 1e9 <= to_s]
        span_ns = inside[-1].at_ns - inside[0].at_ns
        return (inside[-1].sent_bytes - inside[0].sent_bytes) * 8e3 / span_ns

    assert rate_mbit(0.4, 1) == pytest.approx(10, rel=0.1)
    assert rate_mbit(1.1, 1.5) == pytest.approx(4, rel=0.1)


def test_requests_are_due_at_fixed_moments(everything: Run) -> None:
    path = json.loads(everything.text("path.json"))
    requests = json.loads(everything.text("client/requests.json"))["requests"]
    due_ms = [(one["due_ns"] - path["begin_ns"]) / 1e6 for one in requests]
    assert due_ms == pytest.approx([100 * i for i in range(20)])
    answered = [one for one in requests if one["done_ns"] is not None]
    assert len(answered) >= 15
    # Two round trips: the handshake, and the response of three packets.
    assert all(one["done_ns"] - one["due_ns"] >= 40e6 for one in answered)


@pytest.mark.parametrize("kind", QUEUES)
def test_each_queue_stands_at_the_bottleneck(kind: str, lab: Lab, tmp_path: Path) -> None:
    run = made(lab, tmp_path, kind)
    path = json.loads(run.text("path.json"))
    assert path["down"]["ok"], path["down"]["problems"]
    samples = queue_samples((run.path / "router" / "queue-down.bin").read_bytes())
    assert {one.kind for one in samples} == {kind}
    assert max(one.backlog_bytes for one in samples) > 0
    assert samples[-1].sent_bytes > 0.8 * 10e6 / 8  # 1 s at 10 Mbit/s


def test_losses_come_in_runs_and_jitter_reorders_nothing(lab: Lab, tmp_path: Path) -> None:
    run = made(lab, tmp_path, "lossy")
    shown = json.loads(run.text("router/queues-after.json"))
    netems = [one for one in shown if one["kind"] == "netem" and one["dev"] == "ifb-down"]
    assert sum(one["drops"] for one in netems) > 0
    seen: dict[int, int] = {}
    sent: dict[int, list[int]] = {}
    for one in packets(run.path / "server" / "capture.pcap"):
        if one["down"] and one["length"]:
            sent.setdefault(one["flow"], []).append(one["seq"])
    for one in packets(run.path / "client" / "capture.pcap"):
        if one["down"] and one["length"]:
            order = sent[one["flow"]]
            place = order.index(one["seq"], seen.get(one["flow"], 0))  # ValueError: overtaken
            seen[one["flow"]] = place + 1
    assert seen.keys() == {0, 1}


def test_missing_congestion_control_is_refused_with_those_that_there_are(
    lab: Lab, tmp_path: Path
) -> None:
    p = lab.Parameters(runs=str(tmp_path), only="nowhere", size="full")
    with pytest.raises(LabError) as refused:
        launch(lab, p)
    assert "no congestion control cubic2" in str(refused.value)
    assert "bbr, " in str(refused.value)


@pytest.mark.parametrize("kernel", KERNELS)
def test_equal_runs_have_one_digest(
    lab: Lab, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run as a lab in a file boots it, kept if there is one, and one new run in seccomp mode;
    nine with LABS_FRESH=1."""
    digests = set()
    for number in range(10 if os.environ.get("LABS_FRESH") == "1" else 2):
        monkeypatch.setenv("LABS_BOOT", "seccomp" if number else "auto")
        p = lab.Parameters(runs=str(tmp_path / str(number)), only="all", size="full", kernel=kernel)
        p = replace(p, memory_mib=5120) if kernel.startswith("7") else p
        (folder,) = (launch if number else make)(lab, p).file.folders()
        digests.add(open_run(folder).digest)
    assert len(digests) == 1
