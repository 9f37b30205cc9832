"""The reader of nstat, on what it printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.read.parse import proc

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_counters_of_three_kernels() -> None:
    before, after = (proc.counters(read(f"nstat-{name}.txt")) for name in ("before", "after"))
    assert before.keys() == after.keys()
    assert len(before) > 150
    assert len(proc.counters(read("nstat-6.18.txt"))) > 150
    assert "TcpExtTCPMemoryPressures" in before


def test_changes_over_a_run_with_losses() -> None:
    changes = proc.changes(
        proc.counters(read("nstat-before.txt")), proc.counters(read("nstat-after.txt"))
    )
    assert changes["TcpPassiveOpens"] == 1
    assert changes["TcpRetransSegs"] > 20
    assert changes["TcpOutSegs"] > changes["TcpExtTCPDelivered"] > 4000
    assert proc.changes({}, {"A": 5}) == {"A": 5}


@pytest.mark.parametrize("text", ["TcpInSegs", "TcpInSegs five 0.0", "ss: cannot open netlink"])
def test_counters_refuses_other_text(text: str) -> None:
    with pytest.raises(Damaged, match="line 2"):
        proc.counters("#kernel\n" + text)


def test_softirqs_adds_the_cpus() -> None:
    text = read("softirqs.txt")
    line = next(line for line in text.splitlines() if "NET_RX" in line)
    assert proc.softirqs(text)["NET_RX"] == sum(map(int, line.split(":")[1].split()))
    assert len(proc.softirqs(text)) == 10  # include/linux/interrupt.h, NR_SOFTIRQS


def test_interrupts_adds_the_cpus_and_leaves_out_names() -> None:
    found = proc.interrupts(read("interrupts.txt"))
    assert found["LOC"] > 0 and found["RES"] > 0 and "ERR" in found


@pytest.mark.parametrize("reader", [proc.softirqs, proc.interrupts, proc.switches])
def test_counters_refuse_other_text(reader: object) -> None:
    assert callable(reader)
    with pytest.raises(Damaged):
        reader("nothing here\n")
