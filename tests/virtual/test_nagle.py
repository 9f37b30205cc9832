"""The stall of article 3, live: on both kernels, from far away, and the same bytes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.experiments.nagle.results import Results
from labs.launch.launch import run as perform
from labs.read.flows.exchanges import ARTICLE_OFF, ARTICLE_ON
from labs.read.readings.responses import following, held_segment, requests_of, table_of
from labs.read.runs.run import Run, open_run
from tests.kept_runs import make
from tests.made_verdicts import verdicts
from tests.real_runs import codes, known

KERNELS = [
    "6.1",
    *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")),
]
CONDITIONS = "off,on,off-no-k,quickack"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of all tests in this file; each is performed once."""
    return tmp_path_factory.mktemp("runs")


def runs(folder: Path, kernel: str = "6.1", **given: Any) -> dict[str, Run]:
    """The runs of a study by condition."""
    requested = {"only": CONDITIONS, **given}
    study = make(find("nagle"), Nagle(runs=str(folder), kernel=kernel, **requested))
    return {run.condition: run for run in study.runs}


@pytest.mark.parametrize("kernel", KERNELS)
def test_stalls_need_nagle_kept_connections_and_delayed_acks(folder: Path, kernel: str) -> None:
    """The article has 44.6 ms on its machines, with up to 14 ms of their own; without -k and with
    quick ACKs it has no figure."""
    found = {name: Results(run) for name, run in runs(folder, kernel).items()}
    assert 38 < known(found["off"].mean_ms) < 48
    assert known(found["on"].mean_ms) < 2
    assert known(found["off-no-k"].mean_ms) < 5 and known(found["quickack"].mean_ms) < 5
    assert {name: row.stalled_pct for name, row in found.items()} == {
        "off": 90,
        "on": 0,
        "off-no-k": 0,
        "quickack": 0,
    }
    for row in found.values():
        assert row.mean_ms == pytest.approx(row.predicted_mean_ms, abs=1.0)
        assert row.requests == row.captured_requests == row.served_requests == 1000


@pytest.mark.parametrize("kernel", KERNELS)
def test_following_finds_the_articles_steps_in_nine_of_ten_requests(
    folder: Path, kernel: str
) -> None:
    for name, steps in (("off", ARTICLE_OFF), ("on", ARTICLE_ON)):
        assert following(requests_of(runs(folder, kernel)[name]), steps).share == 0.9


@pytest.mark.parametrize("kernel", KERNELS)
def test_verdicts_of_article_3_on_fresh_runs(folder: Path, kernel: str) -> None:
    found = {one.id: one.verdict for one in verdicts(find("nagle"), runs(folder, kernel).values())}
    assert found["A3.1"] == found["A3.3"] == found["A3.4"] == found["A3.5"] == "holds"
    assert found["A3.7a"] == "not judged"


def test_joined_writes_are_one_segment_and_do_not_stall(folder: Path) -> None:
    """With MSG_MORE on the last write too, the kernel would wait for 200 ms."""
    for row in map(
        Results,
        runs(folder, only="write-one,write-cork,write-more", requests=100, concurrency=10).values(),
    ):
        assert (row.segments_per_answer, row.stalled_pct) == (1, 0)
        assert known(row.p99_ms) < 1


@pytest.mark.parametrize(
    ("delay_ms", "medians_ms"),
    [
        (0, {"off": 44, "on": 0, "quickack": 0, "off-no-k": 0}),
        (20, {"off": 84, "on": 20, "quickack": 40, "off-no-k": 40}),
        (200, {"off": 444, "on": 200, "quickack": 400, "off-no-k": 400}),
    ],
)
def test_expected_times_are_those_measured_at_any_delay(
    folder: Path, delay_ms: int, medians_ms: dict[str, float]
) -> None:
    """The rest of the response waits for the timer and a round trip, with quick ACKs only for the
    round trip (labs.read.theory.nagle). The mean of 1000 requests on 100 connections has up to 4 ms
    less in the first of nine stalls, ab's own time, and its start with a single connection."""
    found = runs(folder, delay_ms=float(delay_ms))
    for name, median_ms in medians_ms.items():
        row = Results(found[name])
        assert row.p50_ms == pytest.approx(median_ms, abs=1.0)
        assert row.predicted_p50_ms == pytest.approx(median_ms, abs=0.1)
        assert row.mean_ms == pytest.approx(row.predicted_mean_ms, abs=1.0)
        assert codes(row) == ["below_1_ms"] * (known(row.mean_ms) < 1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_timeout_of_nagle_and_bulk_data_on_fresh_runs(folder: Path, kernel: str) -> None:
    """A held segment is sent by a tail loss probe or with the ACK; bulk data is never held."""
    names = "acks-dropped,acks-dropped-no-tlp,bulk,bulk-on,small-writes,small-writes-on"
    made = runs(folder, kernel, only=names)
    found = {one.id: one for one in verdicts(find("nagle"), made.values())}
    assert found["A3.8"].verdict == "wrong"
    assert (found["A3.9c"].verdict, found["A3.9b"].verdict) == ("holds", "wrong")
    held = {
        name: held_segment(table_of(made[name])) for name in ("acks-dropped", "acks-dropped-no-tlp")
    }
    assert [one and one.acknowledged for one in held.values()] == [False, True]
    off, on = (made[name] for name in ("bulk", "bulk-on"))
    assert Results(off).captured.segments == Results(on).captured.segments
    assert Results(off).body_mbit == pytest.approx(Results(on).body_mbit, rel=0.001)


def test_nagle_runs_repeat_to_the_byte(tmp_path: Path) -> None:
    requested: dict[str, Any] = {
        "only": "off,pieces-quickack,ask",
        "requests": 200,
        "concurrency": 20,
    }
    kept = make(find("nagle"), Nagle(runs=str(tmp_path / "kept"), **requested))
    again = perform(find("nagle"), Nagle(runs=str(tmp_path / "again"), **requested))
    for a, b in zip(kept.file.folders(), again.file.folders(), strict=True):
        assert open_run(a).digest == open_run(b).digest
        capture = "server/capture.pcap"
        assert (a / capture).read_bytes() == (b / capture).read_bytes()
        assert (a / capture).stat().st_size > 10_000
