"""Every kind of condition of the lab `buffers` as a row of results, on real runs of two kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.experiments.buffers.conditions import SHARE, SWEEP, conditions
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.buffers.figures import by_condition, describe
from labs.experiments.buffers.results import article, parameter
from labs.experiments.buffers.settings import Settings
from labs.guest.condition import as_settings, read_settings
from labs.read.claims.ledger import figures_by_column
from labs.read.readings.bulk_transfer import WMEM
from labs.read.readings.instruments import instants
from labs.read.runs.run import Run
from labs.studies.study import Study
from tests.real_runs import real, real_study, with_condition, with_file

KERNELS = ("6.1", "6.12")
MIB = 1 << 20


@pytest.mark.parametrize("kernel", KERNELS)
def test_results_predict_the_steady_state(kernel: str) -> None:
    """From 32 KiB on; below, what is played is a guess (the notes of `labs.read.theory.bulk`)."""
    rows = real_study(kernel).results()
    known = rows[
        rows["settled"].eq(True)
        & rows["predicted_mib_s"].notna()
        & ~(rows["buffer_bytes"] < 32 << 10)
    ]
    apart = 100 * (known["predicted_mib_s"] / known["steady_mib_s"] - 1)
    assert len(known) >= 12
    assert apart.abs().max() < 5


@pytest.mark.parametrize(
    ("name", "delay_ms", "figures"),
    [
        ("unshaped", 0, ("A1.1", {"goodput_mib_s": 337.0})),
        ("shaped", 0, ("A1.2", {"goodput_mib_s": 91.7, "steady_mib_s": 91.6})),
        ("default", 200, ("A1.6", {"steady_mib_s": 13.4})),
        ("wmem", 200, ("A1.7", {"steady_mib_s": 14.9})),
        ("both", 200, ("A1.8", {"goodput_mib_s": 77.8, "steady_mib_s": 92.7})),
        ("rmem100", 200, ("A1.9a", {"goodput_mib_s": 76.9, "steady_mib_s": 89.2})),
    ],
)
def test_figures_by_column_of_the_article(
    name: str, delay_ms: float, figures: tuple[str, Any]
) -> None:
    """They are compared with a run of the article's size, link and buffers, and with no other."""
    run = with_condition(real("both-1gib"), name=name, link={"delay_ms": delay_ms})
    assert of_the_article(run) == figures
    claim = article().claim(figures[0])
    names = claim.shown_at or claim.parameters
    others = {
        "transfer_mib": with_condition(run, settings={"transfer_bytes": 1 << 20}),
        "delay_ms": with_condition(run, link={"delay_ms": 100}),
        "buffer_mib": with_condition(run, sysctls={"server": {WMEM: three(49)}}),
    }
    for name_, other in others.items():
        assert of_the_article(other) == (None if name_ in names else figures), name_
    assert of_the_article(with_condition(run, name="by-hand")) is None


def of_the_article(run: Run) -> Any:
    return figures_by_column(article(), run, parameter)


def three(mib: int) -> str:
    return " ".join([str(mib * MIB)] * 3)


def test_by_condition_has_the_figure_of_the_ledger() -> None:
    """A1.7: 14.9 MiB/s, of the steady state alone."""
    run = with_condition(real("both-1gib"), name="wmem")
    study = Study(Buffers(), (run,), Path("runs"), None, True, lab=find("buffers"))
    (bars,) = [each for each in by_condition(study.results()).data if each.name == "the article"]
    assert (bars.x, bars.text) == ((article().claim("A1.7").expected,), ("A1.7: 14.9 MiB/s",))
    assert "the article (A1.7) reports 14.9 MiB/s in steady state" in describe(study.results())


def test_group_of_a_run_by_the_name_of_its_condition() -> None:
    """A group that an earlier version wrote into the run does not count."""
    run = with_condition(real_study("6.1").run("sweep-98k"), group=SHARE.name)
    assert find("buffers").group_of(run) == SWEEP.name


def test_read_settings_returns_what_as_settings_wrote() -> None:
    every = conditions(Buffers(size="full", capture=True))
    for condition in every:
        settings = read_settings(Settings, json.loads(json.dumps(condition.settings)))
        assert as_settings(settings) == condition.settings
        assert settings.capture
    assert read_settings(Settings, {"client": "wget", "gone": 1}) == Settings(client="wget")


@pytest.mark.parametrize("host", ["server", "client"])
def test_instants_of_ss_and_samples_agree(host: str) -> None:
    counter = "bytes_acked" if host == "server" else "bytes_received"
    result = instants(real_study("6.1").run("default"), host, counter)
    assert len(result) >= 2
    assert set(result.differs) == {""}


def test_instants_name_where_ss_differs(tmp_path: Path) -> None:
    run = real("captured")
    text = run.text("client/ss.txt")
    before = next(word for word in text.split() if word.startswith("rcv_ssthresh:"))
    other = with_file(run, tmp_path, "client/ss.txt", before, "rcv_ssthresh:1")
    result = instants(other, "client", "bytes_received")
    assert "rcv_ssthresh_bytes" in set(result.differs)
