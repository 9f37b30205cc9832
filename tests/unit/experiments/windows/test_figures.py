"""Figures and tables of the lab `windows`, from real runs."""

from __future__ import annotations

from typing import Any

import pytest
from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.experiments.windows import figures as charts
from labs.experiments.windows.figures import PARTS, budget, budget_at, same_packets
from labs.experiments.windows.results import packets
from tests.real_runs import windows_run, windows_study

CONDITIONS = windows_study().conditions


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> str:
    return " | ".join(str(note.text) for note in figure.layout.annotations)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_by_packet_keeps_every_packet_of_every_condition(condition: str) -> None:
    run = windows_run(condition)
    figure = charts.by_packet(run)
    wire = named(figure)["window left, on the wire"]
    assert list(wire.x) == packets(run)["packet"].tolist()
    assert figure.layout.meta["table"]["rows"]


def test_by_packet_has_buttons_for_packets_and_for_time() -> None:
    run = windows_run("article-scale1")
    figure = charts.by_packet(run)
    (menu,) = figure.layout.updatemenus
    assert [button.label for button in menu.buttons] == ["by packet", "by time"]
    for button, column in zip(menu.buttons, ("packet", "time_s"), strict=True):
        assert [len(xs) for xs in button.args[0]["x"]] == [len(trace.x) for trace in figure.data]
        assert button.args[0]["x"][0] == packets(run)[column].tolist()
    assert menu.buttons[0].args[1] == {"xaxis.title.text": "packet number"}
    assert list(figure.data[0].x) == packets(run)["packet"].tolist()


def test_by_packet_without_samples_draws_the_wire_alone() -> None:
    drawn = named(charts.by_packet(windows_run("unsampled")))
    assert "window left, on the wire" in drawn and "coalesced" not in drawn


def test_by_part_adds_up_to_the_memory_in_use() -> None:
    run = windows_run("article-scale0")
    parts = budget(run)
    used = parts[["payload_bytes", "structures_bytes", "unused_bytes"]].sum(axis=1)
    assert used.tolist() == packets(run)["rmem_bytes"].tolist()
    assert (parts[list(PARTS)] >= 0).all().all()
    # The first packet: 1,024 of payload, 256 + 320 of structures, and the rest of 2,304.
    assert parts.iloc[0][list(PARTS)[:3]].tolist() == [1024, 576, 704]
    figure = charts.by_part(run)
    assert len(figure.data) == len(PARTS) + 1
    assert figure.layout.meta["tell"].startswith("Size, in bytes: payload")


def test_by_part_of_half_the_buffer_leaves_some_free() -> None:
    parts = budget(windows_run("article-scale1"))
    total = parts[list(PARTS)].sum(axis=1)
    assert (total == parts["rcvbuf_bytes"]).all()


def test_multiples_without_runs_say_so() -> None:
    assert "no runs" in texts(charts.over_kernels("no-such-condition", windows_study()))
    assert "no runs" in texts(charts.over_scales(windows_study(), "no-such-condition"))
    assert "no runs" in texts(charts.opening_by_kernel("no-such-condition", windows_study()))
    assert "no runs" in texts(charts.opening(windows_study(), "no-such-condition"))


def test_budget_at_counts_from_either_end() -> None:
    run = windows_run("article-scale0")
    table = budget_at(run, 1, -1)
    assert table["Packet"].tolist() == [1, 68]
    with pytest.raises(BadInput, match="there is no packet 0"):
        budget_at(run, 0)


def test_sampling_leaves_the_packets_as_they_are() -> None:
    for kernel in ("6.1", "6.12"):
        table = same_packets(
            windows_run("article-scale0", kernel), windows_run("unsampled", kernel)
        )
        assert table["Different packets"].tolist() == [0, 0], kernel
        assert len(set(table["Packets"])) == 1
