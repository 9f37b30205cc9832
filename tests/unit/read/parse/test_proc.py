"""The reader of nstat, on what it printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.read.parse import proc

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


@pytest.mark.parametrize("text", ["TcpInSegs", "TcpInSegs five 0.0", "ss: cannot open netlink"])
def test_counters_refuses_other_text(text: str) -> None:
    with pytest.raises(Damaged, match="line 2"):
        proc.counters("#kernel\n" + text)


def test_softirqs_adds_the_cpus() -> None:
    text = read("softirqs.txt")
    line = next(line for line in text.splitlines() if "NET_RX" in line)
    assert proc.softirqs(text)["NET_RX"] == sum(map(int, line.split(":")[1].split()))
    assert len(proc.softirqs(text)) == 10  # include/linux/interrupt.h, NR_SOFTIRQS


@pytest.mark.parametrize("reader", [proc.softirqs, proc.interrupts, proc.switches])
def test_counters_refuse_other_text(reader: object) -> None:
    assert callable(reader)
    with pytest.raises(Damaged):
        reader("nothing here\n")
