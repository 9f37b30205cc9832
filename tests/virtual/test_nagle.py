"""The stall of article 3, live: on both kernels, from far away, and the same bytes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.experiments.nagle.parameters import Nagle
from labs.experiments.nagle.requests import following, requests_of
from labs.experiments.nagle.results import results
from labs.launch.launch import run as make
from labs.read.claims.judge import verdicts
from labs.read.flows.exchanges import ARTICLE_OFF, ARTICLE_ON
from labs.read.runs.run import Run, open_run
from tests.real_runs import codes, known

KERNELS = ["6.1", pytest.param("6.12", marks=pytest.mark.kernel("6.12"))]
CONDITIONS = "off,on,off-no-k,quickack"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of all tests of this file: each is made once."""
    return tmp_path_factory.mktemp("runs")


def runs(folder: Path, kernel: str = "6.1", **given: Any) -> dict[str, Run]:
    """The runs of a study by condition."""
    wished = {"only": CONDITIONS, **given}
    study = make(find("nagle"), Nagle(runs=str(folder), kernel=kernel, **wished))
    return {run.condition: run for run in study.runs}


@pytest.mark.parametrize("kernel", KERNELS)
def test_stalls_need_nagle_kept_connections_and_delayed_acks(folder: Path, kernel: str) -> None:
    """The article has 44.6 ms on its machines, with up to 14 ms of their own; without -k and with
    quick ACKs it has no figure."""
    found = {name: results(run) for name, run in runs(folder, kernel).items()}
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
    assert found["A3.7"] == "not judged"


def test_joined_writes_are_one_segment_and_do_not_stall(folder: Path) -> None:
    """A last write that says more is to come would wait 200 ms in the kernel."""
    for row in map(
        results,
        runs(folder, only="write-one,write-cork,write-more", requests=100, concurrency=10).values(),
    ):
        assert (row.segments_per_answer, row.stalled_pct) == (1, 0)
        assert known(row.p99_ms) < 1


def test_stall_grows_by_the_round_trip(folder: Path) -> None:
    """20 ms: the rest of the answer waits for the timer and a round trip, with quick ACKs for the
    round trip alone (labs.read.theory.nagle)."""
    found = {
        name: results(run)
        for name, run in runs(
            folder, only="off,on,quickack", delay_ms=20.0, requests=100, concurrency=10
        ).items()
    }
    for name, steady_ms in (("off", 84.0), ("on", 20.0), ("quickack", 40.0)):
        assert found[name].p50_ms == pytest.approx(steady_ms, abs=1.0)
        assert found[name].predicted_p50_ms == pytest.approx(steady_ms, abs=0.1)
        assert codes(found[name]) == []


def test_nagle_runs_repeat_to_the_byte(tmp_path: Path) -> None:
    wished: dict[str, Any] = {"only": "off,pieces-quickack,ask", "requests": 200, "concurrency": 20}
    one, other = (
        make(find("nagle"), Nagle(runs=str(tmp_path / name), **wished)) for name in ("one", "other")
    )
    for a, b in zip(one.file.folders(), other.file.folders(), strict=True):
        assert open_run(a).digest == open_run(b).digest
        capture = "server/capture.pcap"
        assert (a / capture).read_bytes() == (b / capture).read_bytes()
        assert (a / capture).stat().st_size > 10_000
