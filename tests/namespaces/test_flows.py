"""Flows over a path in real time: at a router of namespaces, and between two machines over ssh.

Without netem a path has no delay here, and only the queues that this machine's kernel has.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.drive.testbed.namespaces import OnThisMachine
from labs.drive.testbed.vagrant import Machine, Machines
from labs.errors import BadInput, Missing, RunFailed
from labs.guest.bench import Bench
from labs.guest.condition import Condition
from labs.guest.flows import FIRST_PORT, Flow, Requests, Traffic
from labs.guest.testbed.contract import Testbed
from labs.guest.testbed.path import QUEUES, Direction, NetworkPath, Queue
from labs.guest.traffic import measure
from labs.read.capture.reader import connections, read
from labs.read.parse.qdisc_samples import queue_samples
from tests.sshd import Sshd

Daemons = dict[str, tuple[Sshd, Machine]]
SYN, ACK = 2, 16
FIRST_WINDOW_BYTES = 10 * 1448
PATH = NetworkPath(Direction(20, queue=Queue(packets=50)), Direction(5))
# The flow up begins later: it fills the client's own queue, in which a SYN would wait for seconds,
# and tcpdump is behind that queue.
FLOWS = (Flow(), Flow("bbr"), Flow("reno", "up", start_s=1))
TRAFFIC = Traffic(PATH, FLOWS, 3, Requests(every_ms=100))


def performed(testbed: Testbed, condition: Condition, folder: Path) -> None:
    try:
        with testbed:
            measure(Bench(testbed, condition, folder, lambda line: None), condition)
    except RunFailed as error:
        if "too busy" in str(error):
            pytest.skip(str(error))  # real time: the processes of others delay the start
        raise


def first_syns(capture: Path, port: int) -> int:
    """How often the client sent the SYN of the connection from this port."""
    known, rows = connections(capture), read(capture)
    own = rows["connection"].isin(known.index[known["client_port"] == port])
    return int((own & (rows["flags"] & (SYN | ACK) == SYN)).sum())


def check(folder: Path, queue_host: str) -> None:
    path = json.loads((folder / "path.json").read_text())
    assert (path["down"]["queue"]["kind"], path["down"]["queue"]["packets"]) == ("pfifo", 50)
    flows = [
        json.loads((folder / host / "stream.json").read_text())["flows"]
        for host in ("client", "server")
    ]
    received = [one for side in flows for one in side if one["role"] == "receive"]
    assert {one["flow"] for one in received} == {0, 1, 2}
    down = sum(one["bytes"] for one in received if one["flow"] < 2)
    # 3 s at 20 Mbit/s, and what the sockets and the queue hold; without a shaper it is gigabytes.
    assert down < 1.5 * 7.5e6
    # A flow is carried, more than its first window, unless the full queue dropped its handshake: a
    # second SYN follows after 1 s. On a busy machine flows begin one by one.
    carried = {one["flow"]: one["bytes"] > FIRST_WINDOW_BYTES for one in received}
    assert any(carried.values())
    for flow, enough in carried.items():
        syns = first_syns(folder / "client" / "capture.pcap", FIRST_PORT + flow)
        assert syns >= (1 if enough else 2), flow
    samples = queue_samples((folder / queue_host / "queue-down.bin").read_bytes())
    assert {one.kind for one in samples} == {"pfifo"}
    assert 0 < max(one.backlog_packets for one in samples) <= 50
    requests = json.loads((folder / "client" / "requests.json").read_text())["requests"]
    assert len(requests) == 30
    captured = (folder / "client" / "capture.pcap").read_bytes()
    assert all((FIRST_PORT + number).to_bytes(2) in captured for number in range(3))


def test_flows_share_a_queue_at_a_router(tmp_path: Path) -> None:
    condition = TRAFFIC.condition("three", "namespaces")
    performed(OnThisMachine(condition.link), condition, tmp_path)
    check(tmp_path, "router")


def test_flows_share_a_queue_between_two_machines(daemons: Daemons, tmp_path: Path) -> None:
    (_, server), (_, client) = daemons.values()
    condition = TRAFFIC.condition("three", "vagrant")
    performed(Machines(condition.link, server, client), condition, tmp_path)
    check(tmp_path, "server")
    with Machines(condition.link, server, client) as testbed:
        for host in (testbed.server, testbed.client):
            shown = host.run(("tc", "qdisc", "show", "dev", host.device)).text
            assert "htb" not in shown and "ingress" not in shown


def test_what_two_machines_cannot_do_is_refused(daemons: Daemons, tmp_path: Path) -> None:
    (_, server), (_, client) = daemons.values()
    nth = Traffic(NetworkPath(Direction(20, drop_every=9)), (Flow(),), 2)
    mixed = Traffic(NetworkPath(Direction(20)), (Flow(ecn=True), Flow()), 2)
    for traffic, possible in ((nth, "loss_pct"), (mixed, "all flows or none")):
        condition = traffic.condition("refused", "vagrant")
        with pytest.raises(BadInput, match=possible):
            performed(Machines(condition.link, server, client), condition, tmp_path)


def test_missing_queue_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    lacking = []
    with OnThisMachine(TRAFFIC.condition("three").link) as testbed:
        for kind in QUEUES:
            words = ("tc", "qdisc", "add", "dev", "lo", "root", kind)
            said = testbed.server.run(words, check=False).stderr.decode()
            testbed.server.run(("tc", "qdisc", "del", "dev", "lo", "root"), check=False)
            if "unknown" in said or "not found" in said:
                lacking.append(kind)
    if not lacking:
        pytest.skip("this kernel has every queue")
    traffic = Traffic(NetworkPath(Direction(20, queue=Queue(lacking[0]))), (Flow(),), 2)
    condition = traffic.condition("lacking", "namespaces")
    with pytest.raises(Missing, match=r"It has: .*pfifo") as refused:
        performed(OnThisMachine(condition.link), condition, tmp_path)
    assert f"no queue {lacking[0]}" in str(refused.value)
