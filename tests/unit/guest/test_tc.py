"""The reader of tc, on what it printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.guest import tc

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parse"


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_queues_of_the_articles_link() -> None:
    queues = tc.queues(read("tc-after.txt"))
    root, *_ = queues
    assert (root.what, root.kind, root.handle, root.root, root.parent) == (
        "qdisc",
        "htb",
        "1:",
        True,
        None,
    )
    netem = next(queue for queue in queues if queue.kind == "netem")
    assert (netem.parent, netem.options) == ("1:10", "limit 1000 delay 40ms loss 1%")
    assert netem.dropped > 20
    assert netem.sent_packets > 4000
    shaped = next(queue for queue in queues if queue.handle == "1:10")
    assert (shaped.what, shaped.parent, shaped.leaf) == ("class", "1:1", "10:")
    assert shaped.options.startswith("prio 0 rate 100Mbit ceil 100Mbit burst 20")
    assert shaped.sent_bytes == netem.sent_bytes
    assert any(line.startswith("lended:") for line in shaped.more)
    top = next(queue for queue in queues if queue.handle == "1:1")
    assert (top.root, top.parent) == (True, None)


def test_queues_counts_the_backlog() -> None:
    netem = next(queue for queue in tc.queues(read("tc-backlog.txt")) if queue.kind == "netem")
    assert netem.backlog_packets == 243
    assert netem.backlog_bytes == 3229598


def test_queues_of_fq_codel_and_of_all_devices() -> None:
    codel = next(queue for queue in tc.queues(read("tc-fq-codel.txt")) if queue.handle == "10:")
    assert codel.kind == "fq_codel"
    assert codel.options.startswith("limit 10240p flows 1024 quantum 1514")
    assert codel.more[0].startswith("maxpacket")
    devices = {queue.device for queue in tc.queues(read("tc-devices.txt"))}
    assert "lo" in devices


def test_queues_before_a_run_has_no_traffic() -> None:
    before = {(queue.what, queue.handle): queue for queue in tc.queues(read("tc-before.txt"))}
    after = {(queue.what, queue.handle): queue for queue in tc.queues(read("tc-after.txt"))}
    assert before.keys() <= after.keys()
    assert before["qdisc", "10:"].sent_packets == 0
    assert all(before[key].options == after[key].options for key in before)


def test_queues_reads_a_backlog_in_kib() -> None:
    (queue,) = tc.queues("qdisc netem 10: parent 1:10 limit 9\n backlog 12Kb 9p requeues 0\n")
    assert (queue.backlog_bytes, queue.backlog_packets, queue.dropped) == (12288, 9, 0)


@pytest.mark.parametrize("text", ["Cannot find device", " Sent 0 bytes 0 pkt"])
def test_queues_refuses_other_text(text: str) -> None:
    with pytest.raises(Damaged, match="line 1"):
        tc.queues(text)
