"""Every kind of condition of the lab `buffers` as a row of results, on real runs of two kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pandas import isna

from labs.catalog import find
from labs.experiments.buffers.conditions import (
    ARTICLE,
    FEW,
    GROUPS,
    LOSS,
    NEAR,
    PAUSE,
    QUEUE,
    REQUESTS,
    SHAPER,
    SHARE,
    SWEEP,
    WAIT,
    conditions,
)
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.buffers.figures import buffers_table, by_condition, describe, describe_run
from labs.experiments.buffers.results import Results, article, parameter
from labs.experiments.buffers.settings import Settings
from labs.experiments.buffers.tables import COLUMNS, buffer_rows
from labs.guest.condition import as_settings, read_settings
from labs.read.claims.ledger import figures_by_column
from labs.read.readings.bulk_transfer import WMEM
from labs.read.readings.instruments import instants
from labs.read.runs.run import Run
from labs.studies.study import Study
from tests.real_runs import codes, known, plain, real, real_study, with_condition, with_file

KERNELS = ("6.1", "6.12")
MIB = 1 << 20


def row(kernel: str, condition: str) -> Results:
    return Results(real_study(kernel).run(condition))


@pytest.mark.parametrize("kernel", KERNELS)
def test_results_are_plain_values(kernel: str) -> None:
    rows = [plain(Results(run)) for run in real_study(kernel).runs]
    assert json.loads(json.dumps(rows)) == rows


@pytest.mark.parametrize("condition", ["setsockopt", "setsockopt-raised", "httping"])
def test_results_without_download_leave_its_columns_empty(condition: str) -> None:
    result = row("6.1", condition)
    for name in ("goodput_mib_s", "steady_mib_s", "bytes", "predicted_mib_s", "bound", "settled"):
        assert getattr(result, name) is None, name
    assert codes(result) == []
    assert "Nothing is downloaded" in describe_run(real_study("6.1").run(condition))


def test_results_of_httping_are_two_round_trips() -> None:
    result = row("6.1", "httping")
    rtt_ms = real_study("6.1").run("httping").link.measured.rtt_ms
    assert result.httping_ms == pytest.approx(2 * rtt_ms, rel=0.01)
    assert row("6.1", "default").httping_ms is None
    assert "httping reports 80.1 ms" in describe(
        real_study("6.1").results().query("condition == 'httping'")
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_results_have_sizes_and_series_of_a_sweep(kernel: str) -> None:
    by_sysctl, by_hand = row(kernel, "sweep-98k"), row(kernel, "sweep-set-98k")
    for result, series in ((by_sysctl, "sysctl"), (by_hand, "setsockopt")):
        assert (result.series, result.buffer_bytes) == (series, 98 << 10)
        assert result.receive_most_bytes == result.send_most_bytes == 98 << 10
    # The same sizes, whoever set them: a fixed buffer does not grow, which shows at the beginning.
    assert by_hand.predicted_mib_s == pytest.approx(by_sysctl.predicted_mib_s, rel=1e-2)
    default = row(kernel, "default")
    assert (default.series, default.buffer_bytes) == (None, None)
    assert (default.receive_most_bytes, default.send_most_bytes) == (6291456, 4194304)


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


def test_results_depend_on_adv_win_scale_on_6_1_alone() -> None:
    speeds = {
        kernel: [known(row(kernel, name).steady_mib_s) for name in ("adv-m2", "adv-2")]
        for kernel in KERNELS
    }
    assert speeds["6.1"][1] > 2.5 * speeds["6.1"][0]
    assert speeds["6.12"][1] == pytest.approx(speeds["6.12"][0], rel=0.01)
    assert [row("6.1", name).adv_win_scale for name in ("adv-m2", "adv-2", "default")] == [-2, 2, 1]


def test_results_have_loss_requested_measured_and_drawn() -> None:
    first, second = (row("6.1", f"loss-1-cubic-{draw}") for draw in (0, 1))
    for result in (first, second):
        assert (result.loss_pct, result.congestion_control) == (1, "cubic")
        assert 0.2 < known(result.lost_pct) < 3
        low, high = result.predicted_mean_low_mib_s, result.predicted_mean_high_mib_s
        assert known(low) < known(result.predicted_mean_mib_s) < known(high)
    assert (first.draw, second.draw) == (0, 1)
    assert first.lost_pct != second.lost_pct
    assert row("6.1", "loss-1-bbr-0").congestion_control == "bbr"
    assert row("6.1", "loss-0-cubic-0").lost_pct is None


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


def test_group_of_a_run() -> None:
    groups: dict[str, set[str]] = {}
    for run in real_study("6.1").runs:
        groups.setdefault(find("buffers").group_of(run), set()).add(run.condition)
    assert groups[ARTICLE.name] == {"shaped", "default", "wmem", "both", "rmem100"}
    assert groups[REQUESTS.name] == {"setsockopt", "setsockopt-raised", "by-hand", "httping"}
    assert groups[SHARE.name] == {"adv-m2", "adv-2"}
    assert len(groups[SWEEP.name]) == 7 and len(groups[LOSS.name]) == 5


def test_group_of_a_run_by_the_name_of_its_condition() -> None:
    """A group that an earlier version wrote into the run does not count."""
    run = with_condition(real_study("6.1").run("sweep-98k"), group=SHARE.name)
    assert find("buffers").group_of(run) == SWEEP.name


def test_conditions_are_ordered_by_group() -> None:
    """Those of the size small."""
    result = find("buffers").conditions(Buffers())
    groups = [each.group for each in result]
    small = [
        each.name for each in GROUPS if each not in (LOSS, SHAPER, NEAR, PAUSE, QUEUE, WAIT, FEW)
    ]
    assert list(dict.fromkeys(groups)) == small
    assert groups == sorted(groups, key=[each.name for each in GROUPS].index)
    assert {each.name for each in result} == {each.name for each in conditions(Buffers())}


def test_read_settings_returns_what_as_settings_wrote() -> None:
    every = conditions(Buffers(size="full", capture=True))
    for condition in every:
        settings = read_settings(Settings, json.loads(json.dumps(condition.settings)))
        assert as_settings(settings) == condition.settings
        assert settings.capture
    assert read_settings(Settings, {"client": "wget", "gone": 1}) == Settings(client="wget")


def test_buffer_rows_of_every_run() -> None:
    rows = buffer_rows(real_study("6.1").runs)
    assert tuple(rows) == COLUMNS
    counts = rows["condition"].value_counts()
    assert counts["setsockopt"] == 20 and counts["both"] == 2 and "httping" not in counts
    (receiver,) = rows[(rows["condition"] == "adv-2") & (rows["whose"] == "receiver")].to_dict(
        "records"
    )
    assert (receiver["set by"], receiver["requested"], receiver["granted"]) == (
        "sysctl",
        50176,
        50176,
    )
    # Three quarters of the buffer, less one segment; windows on the wire are rounded up.
    assert receiver["usable window"] == 50176 * 3 // 4 - 1448
    assert 0 <= receiver["advertised"] - receiver["usable window"] <= 1448
    (sender,) = rows[(rows["condition"] == "wmem") & (rows["whose"] == "sender")].to_dict("records")
    # All of the 2 MiB was written at once; no buffer of 50 MiB fills with that.
    assert 2 * MIB <= sender["used"] < 3 * MIB
    assert isna(sender["advertised"])


def test_buffer_rows_have_what_setsockopt_granted() -> None:
    rows = buffer_rows(real_study("6.1").runs)
    asked_for = rows[rows["condition"] == "setsockopt"]
    granted = {
        (each["whose"], each["requested"]): each["granted"] for each in asked_for.to_dict("records")
    }
    assert granted["receiver", 65536] == 131072
    assert granted["receiver", 52428800] == granted["receiver", 212993] == 2 * 212992
    assert (granted["receiver", 1], granted["sender", 1]) == (2304, 4608)
    raised = rows[rows["condition"] == "setsockopt-raised"]
    assert raised["granted"].max() == 2 * 52428800
    assert set(raised["core maximum"]) == {64 << 20}


def test_buffer_rows_of_a_buffer_set_by_hand() -> None:
    rows = buffers_table(real_study("6.1"))
    by_hand = rows[(rows["condition"] == "by-hand") & (rows["whose"] == "receiver")].iloc[0]
    assert (by_hand["set by"], by_hand.requested, by_hand.granted, by_hand["core maximum"]) == (
        "setsockopt",
        "128",
        "256",
        "208",
    )
    odd = rows[(rows["condition"] == "setsockopt") & (rows["requested"] == "208.001")]
    assert len(odd) == 2


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


def test_instants_of_a_run_without_samples() -> None:
    assert instants(real("unshaped"), "server", "bytes_acked").empty
