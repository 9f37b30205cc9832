"""The kernel's counters of recorded machines, and reports that are not ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.read.parse.proc import interrupts, softirqs, switches
from labs.read.parse.reports import server, settings

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"


def test_softirqs_adds_the_cpus() -> None:
    text = (FIXTURES / "softirqs.txt").read_text()
    line = next(line for line in text.splitlines() if "NET_RX" in line)
    assert softirqs(text)["NET_RX"] == sum(map(int, line.split(":")[1].split()))
    assert len(softirqs(text)) == 10  # include/linux/interrupt.h, NR_SOFTIRQS


def test_interrupts_adds_the_cpus_and_leaves_out_names() -> None:
    found = interrupts((FIXTURES / "interrupts.txt").read_text())
    assert found["LOC"] > 0 and found["RES"] > 0 and "ERR" in found


@pytest.mark.parametrize("reader", [softirqs, interrupts, switches])
def test_counters_refuse_other_text(reader: object) -> None:
    assert callable(reader)
    with pytest.raises(Damaged):
        reader("nothing here\n")


@pytest.mark.parametrize("said", [None, {}, {"threads": []}, {"user_us": "1"}, [1]])
def test_server_refuses_another_object(said: object) -> None:
    with pytest.raises(Damaged):
        server(said)


@pytest.mark.parametrize("said", [None, [{}], [{"factor": "rules"}], {"effective": True}])
def test_settings_refuses_another_object(said: object) -> None:
    with pytest.raises(Damaged):
        settings(said)
