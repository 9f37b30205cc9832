"""The smallest buffer that fills the line, what is made of it in words, and the advice."""

from __future__ import annotations

from typing import Any

import pandas
import pytest

from labs.experiments.buffers.figures import curve, describe_computed_size, to_paste
from labs.read.readings.buffer_sweep import points, remarks, smallest
from labs.read.theory.advice import advise, reached
from labs.read.theory.bdp import bdp_bytes
from labs.read.theory.bulk import LINK

MB = 1e6


def table(*rows: dict[str, Any], kernel: str = "6.1.192") -> pandas.DataFrame:
    """Rows of a sweep over 1000 Mbit/s and 200 ms."""
    given = {
        "kernel": kernel,
        "group": "sweep",
        "series": "sysctl",
        "rate_mbit": 1000.0,
        "rtt_ms": 200.0,
        "settled": True,
        "httping_ms": None,
        "adv_win_scale": 1,
        "condition": "sweep",
    }
    made = [
        {
            **given,
            "steady_bytes_s": row["steady_mib_s"] * 2**20,
            "predicted_mib_s": row["steady_mib_s"],
            **row,
        }
        for row in rows
    ]
    return pandas.DataFrame(made)


def swept(*pairs: tuple[float, float], **more: Any) -> pandas.DataFrame:
    return table(
        *({"buffer_bytes": int(mb * MB), "steady_mib_s": speed, **more} for mb, speed in pairs)
    )


HTTPING = {
    "group": "requests",
    "series": None,
    "buffer_bytes": None,
    "steady_mib_s": float("nan"),
    "httping_ms": 400.2,
    "condition": "httping",
}


def test_smallest_omits_runs_without_steady_state() -> None:
    both = pandas.concat([swept((25, 60), (100, 114)), swept((50, 113.9), settled=False)])
    assert [each.buffer_bytes for each in smallest(both)] == [100_000_000]


def test_smallest_depends_on_what_counts_as_full() -> None:
    """43.75 MB reach 96.5 % of the line."""
    table = swept((25, 60), (43.75, 110), (50, 114))
    assert smallest(table)[0].buffer_bytes == 50_000_000
    assert smallest(table, 95.0)[0].buffer_bytes == 43_750_000


def test_smallest_where_no_buffer_is_enough() -> None:
    (result,) = smallest(swept((10, 24.0), (25, 60.0)))
    assert result.buffer_bytes is result.of_the_bdp is None
    assert result.below_bytes == 25_000_000
    (sentence,) = remarks(swept((10, 24.0), (25, 60.0)))
    assert "none of the 2 buffers" in sentence and "52.6 %" in sentence


def test_points_are_ordered_and_know_their_line() -> None:
    rows = points(swept((50, 114.0), (25, 60.0)))
    assert list(rows["buffer_bytes"]) == [25_000_000, 50_000_000]
    assert rows["bdp_bytes"].iloc[0] == 25e6
    assert rows["line_mib_s"].iloc[0] == pytest.approx(114.0, abs=0.05)


def test_curve_is_the_theory_between_the_sizes() -> None:
    sizes, speeds = curve(points(swept((25, 60.0), (50, 114.0))))
    assert [sizes[0], sizes[-1]] == pytest.approx([25e6, 50e6])
    # Half of 25 MB per 200 ms is 59.6 MiB/s; 1 %: the window is rounded up to its scale.
    assert speeds[0] == pytest.approx(59.6, rel=0.01) and speeds[-1] == pytest.approx(114, abs=0.1)
    assert curve(points(swept((25, 60.0), predicted_mib_s=float("nan")))) == ([], [])


def test_computed_size_of_the_right_number_for_a_wrong_reason() -> None:
    runs = pandas.concat([table(HTTPING), swept((25, 60.0), (50, 114.0))])
    sentence = describe_computed_size(runs, 50.0)
    assert "would be 50 MB. It is 25 MB." in sentence
    assert "50 MB, 2.00 times the BDP of 25 MB" in sentence and "25 MB, reaches 52.6 %" in sentence
    assert "right (within 5 %) for the wrong reason. Its RTT is 2.00 times the true one" in sentence
    assert "but only 50 % of a receive buffer is usable as window" in sentence
    # A run of other parameters is not compared with the article's number.
    other = describe_computed_size(runs, None)
    assert "50 MB, 2.00 times the BDP of 25 MB" in other and "25 MB, reaches 52.6 %" in other
    assert "right" not in other and "(within" not in other


@pytest.mark.parametrize("kernel", ["6.1", "6.8", "6.12"])
@pytest.mark.parametrize(("rate_mbit", "rtt_ms"), [(1000, 200), (10_000, 80), (500, 50)])
def test_advice_fills_the_line(kernel: str, rate_mbit: float, rtt_ms: float) -> None:
    """And with a tenth less at either end they do not. Those for 50 ms are enlarged together."""
    result = advise(rate_mbit, rtt_ms, kernel)
    assert result.bdp_bytes == bdp_bytes(rate_mbit, rtt_ms)

    def bound(receive: float, send: float) -> str:
        return reached(result, sndbuf_bytes=int(send), rcvbuf_bytes=int(receive)).bound

    receive, send = result.receive_bytes, result.send_bytes
    assert bound(receive, send) == LINK
    assert LINK not in (bound(0.9 * receive, send), bound(receive, 0.9 * send))


def test_advice_for_the_articles_link() -> None:
    """6.1 keeps back half of a receive buffer, 6.12 a quarter; a third of a send buffer is free."""
    old, new = advise(1000, 200, "6.1"), advise(1000, 200, "6.12")
    assert old.receive_bytes / 25e6 == pytest.approx(1.91, abs=0.01)
    assert new.receive_bytes / 25e6 == pytest.approx(1.28, abs=0.01)
    assert old.send_bytes / 25e6 == pytest.approx(1.46, abs=0.01)
    # 1448 of 1514 bytes are payload; 153 of 256 (1448 of 2408 bytes) become window.
    alone = 1448 / 1514 * 256 / 153
    assert new.receive_alone_bytes / 25e6 == pytest.approx(alone, abs=0.001)
    assert old.receive_alone_bytes == old.receive_bytes
    assert old.receiver.value == f"4096 131072 {old.receive_bytes}"
    assert new.receiver.value == f"4096 131072 {new.receive_alone_bytes}"
    assert "coalesced in pairs (GRO)" in to_paste(1000, 200, "6.12")
    assert "GRO" not in to_paste(1000, 200, "6.1")
    assert to_paste(1000, 200, "6.1").splitlines()[1] == (
        f"sysctl -w net.ipv4.tcp_rmem='{old.receiver.value}'"
    )


@pytest.mark.parametrize(("rate_mbit", "rtt_ms"), [(10, 20), (1, 1), (100, 20), (1000, 200)])
def test_advice_is_never_below_the_bdp(rate_mbit: float, rtt_ms: float) -> None:
    for kernel in ("6.1", "6.12"):
        result = advise(rate_mbit, rtt_ms, kernel)
        assert min(result.receive_bytes, result.send_bytes) >= result.bdp_bytes
