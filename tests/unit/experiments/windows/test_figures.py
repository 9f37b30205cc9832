"""Figures and tables of the lab `windows`, from real runs."""

from __future__ import annotations

from typing import Any

import pytest
from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.experiments.windows import figures as charts
from labs.experiments.windows.figures import (
    PARTS,
    budget,
    budget_at,
    by_kernel,
    drops,
    rounds,
    same_packets,
)
from labs.experiments.windows.results import packets
from tests.real_runs import windows_run, windows_study

CAPTION = "virtual · Linux 6.1.192 · link as asked (200.0 ms) · live"
CONDITIONS = windows_study().conditions


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> str:
    return " | ".join(str(note.text) for note in figure.layout.annotations)


def test_by_packet_draws_the_article_s_lines_and_marks() -> None:
    figure = charts.by_packet(windows_run("article-scale0"))
    drawn = named(figure)
    assert set(drawn["buffer (skmem_rb)"].y) == {65536}
    assert drawn["memory in use (skmem_r)"].y[-1] == 73984
    assert drawn["data queued (Recv-Q)"].y[-1] == 62464
    assert drawn["window left, on the wire"].y[60] == 3072
    assert list(drawn["dropped"].x)[:2] == [62, 63]
    assert drawn["collapsed"].x[0] == 62
    assert len(drawn["coalesced"].x) == 57
    assert CAPTION in texts(figure) and "62,464 bytes of data" in figure.layout.meta["tell"]
    assert max(drawn["coalesced"].y) < 0


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


def test_over_kernels_has_a_cell_per_kernel_from_old_to_new() -> None:
    figure = charts.over_kernels("article-scale0", windows_study("6.12"), windows_study("6.1"))
    words = texts(figure)
    assert words.index("Linux 6.1.192") < words.index("Linux 6.12.117")
    assert "73,984 of<br>65,536 bytes<br>" in words and "62,208 of<br>65,536 bytes" in words
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert len(shown) == len(set(shown))
    assert "Linux 6.1.192, 6.12.117" in figure.layout.meta["caption"]


def test_over_scales_has_a_cell_per_setting() -> None:
    figure = charts.over_scales(windows_study(), "article-scale0", "article-scale1")
    words = texts(figure)
    assert words.index("scale<br>= 0") < words.index("scale<br>= 1")


def test_multiples_without_runs_say_so() -> None:
    assert "no runs" in texts(charts.over_kernels("no-such-condition", windows_study()))
    assert "no runs" in texts(charts.over_scales(windows_study(), "no-such-condition"))
    assert "no runs" in texts(charts.opening_by_kernel("no-such-condition", windows_study()))
    assert "no runs" in texts(charts.opening(windows_study(), "no-such-condition"))


def test_opening_begins_with_the_handshake() -> None:
    figure = charts.opening(windows_study(), "article-1m", "automatic")
    large = named(figure)["article-1m"]
    assert list(large.x) == list(range(8)) and large.y[0] == 65535
    assert max(large.y) == 839808
    both = charts.opening_by_kernel("article-1m", windows_study(), windows_study("6.12"))
    assert named(both)["Linux 6.12.117"].y[1] > 1_000_000


def test_by_kernel_has_a_row_per_condition_and_kernel() -> None:
    table = by_kernel(
        windows_study("6.12"), windows_study("6.1"), conditions=("article-scale0", "automatic")
    )
    assert table["Linux"].tolist() == ["6.1.192", "6.12.117"] * 2
    assert table["Above the buffer (bytes)"].tolist() == [8448, 0, 0, 0]


def test_budget_at_counts_from_either_end() -> None:
    run = windows_run("article-scale0")
    table = budget_at(run, 1, -1)
    assert table["Packet"].tolist() == [1, 68]
    with pytest.raises(BadInput, match="there is no packet 0"):
        budget_at(run, 0)


def test_drops_begin_at_the_article_s_packet_and_back_off() -> None:
    table = drops(windows_run("article-scale0"))
    assert (table["Packet"].iloc[0], table["Window left before (bytes)"].iloc[0]) == (62, 3072)
    first = table[table["First byte"] == table["First byte"].min()]
    times = first["After the first drop (s)"].tolist()
    assert times[1:] == sorted(times[1:]) and times[-1] / times[-2] == pytest.approx(2, abs=0.1)
    assert drops(windows_run("article-scale1")).empty


def test_rounds_have_headings_for_people() -> None:
    assert rounds(windows_run("automatic"))["Payload accepted (bytes)"].iloc[0] == 64512


def test_sampling_leaves_the_packets_as_they_are() -> None:
    for kernel in ("6.1", "6.12"):
        table = same_packets(
            windows_run("article-scale0", kernel), windows_run("unsampled", kernel)
        )
        assert table["Different packets"].tolist() == [0, 0], kernel
        assert len(set(table["Packets"])) == 1
