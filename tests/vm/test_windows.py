"""The article's receive buffer on the loopback device of a machine: the same bytes queued."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.conftest import On
from tests.vm.test_buffers import answer

pytestmark = pytest.mark.timeout(1200)
# A4.2, A4.3 and A4.6: what is in use and what is queued is counted in whole packets, which loopback
# charges alike on every machine. Kernels of Debian 12 are 6.1.
EXPECTED = {"article-scale0": (65_536, 73_984, 62_464), "article-scale1": (65_536, 62_464, 57_344)}
ALTERED = ("netem", "ingress", "arrivals", "initcwnd")


def test_windows_queues_as_much_as_in_the_article(on: On, tmp_path: Path) -> None:
    said = answer(
        *("run", "windows", "--testbed", "vagrant", "--size", "small", "--into", str(tmp_path)),
        *("--repetitions-min", "1", "--repetitions-max", "1"),
    )
    found = {
        row["condition"]: (row["skmem_rb"], row["skmem_r"], row["recv_q"])
        for row in said["results"]
    }
    assert found == EXPECTED
    left = on("server", "sudo tc qdisc show dev lo; sudo ip link; ip route show table local")
    assert [word for word in ALTERED if word in left] == []
