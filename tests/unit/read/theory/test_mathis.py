"""The formula of Mathis and others beside its own figures and runs of this project."""

from __future__ import annotations

from math import sqrt

import pytest

from labs.read.theory.bdp import mathis_bytes_s
from tests.real_runs import real_study


def test_mathis_goes_with_one_over_rtt_and_the_root_of_the_loss() -> None:
    base = mathis_bytes_s(0.1, 40)
    assert mathis_bytes_s(0.1, 80) == pytest.approx(base / 2)
    assert mathis_bytes_s(0.4, 40) == pytest.approx(base / 2)
    assert mathis_bytes_s(0.1, 40, mss_bytes=724) == pytest.approx(base / 2)
    # MSS / RTT * 1.31 / sqrt(p), Mathis et al. 1997, table 1: 1448 bytes, 40 ms, one in a thousand.
    assert base == pytest.approx(1448 / 0.04 * 1.31 / sqrt(0.001))


def test_mathis_predicts_runs_from_the_losses_that_netem_counted() -> None:
    """CUBIC in its Reno-friendly region. 2 MiB are 1448 segments with some 20 losses; the root of
    such a count varies by 11 % (Poisson), and two standard deviations are allowed."""
    table = real_study("6.1").results()
    rows = table[table["condition"].str.startswith("loss-1-cubic")]
    assert len(rows) == 2
    for row in rows.to_dict("records"):
        predicted = mathis_bytes_s(row["lost_pct"], row["rtt_ms"])
        assert row["goodput_bytes_s"] == pytest.approx(predicted, rel=0.22)


@pytest.mark.parametrize(("loss_pct", "rtt_ms"), [(0, 40), (-1, 40), (1, 0)])
def test_mathis_refuses_what_has_no_value(loss_pct: float, rtt_ms: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        mathis_bytes_s(loss_pct, rtt_ms)
