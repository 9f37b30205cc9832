"""Figures of the lab `sweeps`, from real runs."""

from __future__ import annotations

from typing import Any

from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.experiments.sweeps import figures as charts
from labs.experiments.sweeps.figures import SERIES
from tests.real_runs import sweeps_study

STUDY = sweeps_study()


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> list[str]:
    return [str(note.text) for note in figure.layout.annotations]


def test_goodput_by_buffer_draws_a_run_of_two_studies_once() -> None:
    assert len(named(charts.goodput_by_buffer(STUDY, STUDY))[SERIES["sender"]].x) == 4


def series(*points: tuple[str, float | None, float | None, float | None]) -> list[str]:
    """The remarks on runs with these conditions, sizes of both buffers in KiB, and goodputs."""
    columns = ["condition", "requested_send_kib", "requested_receive_kib", "steady_mib_s"]
    return charts.remarks(DataFrame(points, columns=columns).assign(predicted_mib_s=None))


def test_series_is_full_from_the_smallest_size_with_95_percent_of_the_best() -> None:
    points = {1024: 96.0, 64: 7.0, 4096: 100.0, 16384: 80.0}
    names = {1024: "1m", 64: "64k", 4096: "4m", 16384: "16m"}
    (text,) = series(*((f"both-{names[kib]}", kib, kib, at) for kib, at in points.items()))
    assert "7.00 MiB/s at 64 KiB" in text and "80.0 MiB/s at 16 MiB" in text
    assert "from 1 MiB on" in text


def test_series_take_the_size_that_varies_and_leave_out_what_belongs_to_none() -> None:
    texts = series(
        ("receiver-64k", None, 64.0, 7.0),
        ("sender-1m", 1024.0, None, 90.0),
        ("fixed-256k-4m", 4096.0, 256.0, 80.0),
        ("fixed-8m-default", None, 8192.0, 80.0),
        ("sender-64k", 64.0, None, None),
        ("default", None, None, 113.0),
        ("surface-16k-1m", 16.0, 1024.0, 2.0),
    )
    assert [text.partition(":")[0] for text in texts] == [
        SERIES[name] for name in ("sender", "receiver", "fixed-256k")
    ]
    sizes = ("at 1 MiB", "at 64 KiB", "at 4 MiB")
    assert all(size in text for text, size in zip(texts, sizes, strict=True))
