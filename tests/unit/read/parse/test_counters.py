"""The readers of nstat, tc and wget, on what these tools printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.drive import tc
from labs.errors import Damaged
from labs.read.parse import proc, wget

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
MIB = 1 << 20


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_nstat_of_three_kernels() -> None:
    before, after = (proc.counters(read(f"nstat-{name}.txt")) for name in ("before", "after"))
    assert before.keys() == after.keys()
    assert len(before) > 150
    assert len(proc.counters(read("nstat-6.18.txt"))) > 150
    assert "TcpExtTCPMemoryPressures" in before


def test_nstat_changes_over_a_run_with_losses() -> None:
    changes = proc.changes(read("nstat-before.txt"), read("nstat-after.txt"))
    assert changes["TcpPassiveOpens"] == 1
    assert changes["TcpRetransSegs"] > 20
    assert changes["TcpOutSegs"] > changes["TcpExtTCPDelivered"] > 4000
    assert proc.changes("", "A 5 0.0") == {"A": 5}


@pytest.mark.parametrize("text", ["TcpInSegs", "TcpInSegs five 0.0", "ss: cannot open netlink"])
def test_nstat_that_is_none_is_damage(text: str) -> None:
    with pytest.raises(Damaged, match="line 2"):
        proc.counters("#kernel\n" + text)


def test_tc_of_the_article_s_link() -> None:
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


def test_tc_counts_what_still_waits() -> None:
    netem = next(queue for queue in tc.queues(read("tc-backlog.txt")) if queue.kind == "netem")
    assert netem.backlog_packets == 243
    assert netem.backlog_bytes == 3229598


def test_tc_of_other_queues_and_of_whole_machines() -> None:
    codel = next(queue for queue in tc.queues(read("tc-fq-codel.txt")) if queue.handle == "10:")
    assert codel.kind == "fq_codel"
    assert codel.options.startswith("limit 10240p flows 1024 quantum 1514")
    assert codel.more[0].startswith("maxpacket")
    devices = {queue.device for queue in tc.queues(read("tc-devices.txt"))}
    assert "lo" in devices


def test_tc_before_a_run_has_counted_nothing() -> None:
    before = {(queue.what, queue.handle): queue for queue in tc.queues(read("tc-before.txt"))}
    after = {(queue.what, queue.handle): queue for queue in tc.queues(read("tc-after.txt"))}
    assert before.keys() <= after.keys()
    assert before["qdisc", "10:"].sent_packets == 0
    assert all(before[key].options == after[key].options for key in before)


def test_tc_rounds_a_backlog_in_kib() -> None:
    (queue,) = tc.queues("qdisc netem 10: parent 1:10 limit 9\n backlog 12Kb 9p requeues 0\n")
    assert (queue.backlog_bytes, queue.backlog_packets, queue.dropped) == (12288, 9, 0)


@pytest.mark.parametrize("text", ["Cannot find device", " Sent 0 bytes 0 pkt"])
def test_tc_that_is_none_is_damage(text: str) -> None:
    with pytest.raises(Damaged, match="line 1"):
        tc.queues(text)


def test_wget_of_a_whole_download() -> None:
    found = wget.download(read("wget-40m.txt"))
    assert found.complete
    assert (found.status, found.saved_bytes, found.length_bytes) == (200, 40 * MIB, 40 * MIB)
    assert (found.mean_mib_s, found.duration_s) == (9.49, 4.2)
    assert found.rows == (wget.Row(0, 80, 8.88), wget.Row(32 * MIB, 100, 13.1))


def test_wget_writes_other_units_and_means_them() -> None:
    assert wget.download(read("wget-200k.txt")).mean_mib_s == pytest.approx(375 / 1024)
    assert wget.download(read("wget-no-rows.txt")).mean_mib_s == pytest.approx(5.10 * 1024)
    bits = wget.download(read("wget-bits.txt"))
    assert bits.mean_mib_s == pytest.approx(14.3e9 / 8 / MIB)
    assert bits.rows[0].rate_mib_s == bits.mean_mib_s


def test_wget_with_small_dots_counts_the_same() -> None:
    found = wget.download(read("wget-default-dots.txt"))
    assert len(found.rows) > 30
    assert found.rows[-1].percent == 100
    assert found.saved_bytes == 2_000_000
    slow = wget.download(read("wget-limited.txt"))
    assert slow.duration_s == 1.8


def test_wget_that_was_stopped_has_no_summary() -> None:
    found = wget.download(read("wget-stopped.txt"))
    assert not found.complete
    assert (found.saved_bytes, found.mean_mib_s, found.duration_s) == (None, None, None)
    assert found.length_bytes == 300 * MIB
    assert [row.start_bytes for row in found.rows] == [0, 32 * MIB]


def test_wget_that_did_not_get_it() -> None:
    assert wget.download(read("wget-not-found.txt")).status == 404
    assert wget.download(read("wget-refused.txt")).status is None


def test_another_program_s_log_is_damage() -> None:
    with pytest.raises(Damaged, match="not a log of wget"):
        wget.download("curl: (7) Failed to connect")
