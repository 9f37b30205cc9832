"""Ladders, time-sequence graphs and shares of times, drawn from captures of real connections."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pandas
import pytest
from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.read.capture import read
from labs.read.capture.tcp_marks import marks
from labs.read.figures.ecdf import latency
from labs.read.figures.ecdf import time_to_ack as chart_of_acks
from labs.read.figures.ladder import MOST_PACKETS, ladder
from labs.read.figures.style import BLUE, GREEN, VERMILION
from labs.read.figures.time_sequence import MOST_POINTS, time_sequence
from labs.read.flows.exchanges import ARTICLE_OFF, exchanges
from labs.read.flows.rtt import time_to_ack

FOLDER = Path(__file__).parents[3] / "fixtures" / "exchanges"
NAGLE = FOLDER / "nagle-off.pcap.gz"


def texts(figure: Figure) -> list[str]:
    return [str(text.text) for text in figure.layout.annotations]


def caption(figure: Figure) -> str:
    return next(str(text.text) for text in figure.layout.annotations if text.name == "caption")


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name.split(": median")[0]: trace for trace in figure.data}


def stalled() -> tuple[pandas.DataFrame, int, tuple[int, int]]:
    """A table, a connection in it, and the rows of a request that follows the article."""
    segments = read(NAGLE)
    rows = exchanges(segments)
    request = rows[rows["steps"] == ARTICLE_OFF].iloc[0]
    return (
        segments,
        int(request["connection"]),
        (int(request["first_row"]), int(request["last_row"])),
    )


def arrows(figure: Figure) -> list[tuple[float, int, str]]:
    """Of each arrow: how far down it begins, from which side, and its colour."""
    places = []
    for trace in figure.data:
        for place in range(0, len(trace.x), 3):
            assert trace.x[place] == 1 - trace.x[place + 1] and trace.x[place + 2] is None
            assert trace.y[place] < trace.y[place + 1]
            places.append((trace.y[place], trace.x[place], trace.line.color))
    return sorted(places)


def test_ladder_of_the_article() -> None:
    segments, connection, rows = stalled()
    figure = ladder(segments, connection, rows=rows, source=NAGLE)
    client, server = (0, BLUE), (1, GREEN)
    assert [arrow[1:] for arrow in arrows(figure)] == [client, server, client, server, client]
    words = texts(figure)
    assert words[0].startswith("<b>PSH, ACK</b> · <b>101 bytes</b> · seq ")
    assert (
        sum("238 bytes" in text for text in words)
        == sum("615 bytes" in text for text in words)
        == 1
    )
    silent = [text for text in words if "of silence" in text]
    assert len(silent) == 1 and "<b>43" in silent[0]
    assert silent[0].endswith("</b><br>delayed ACK meets Nagle<br>the server waits for the client")
    assert figure.layout.meta["tell"].startswith("5 packets within 44.231 ms: 3 from the client")
    assert len(figure.layout.meta["table"]["rows"]) == 5
    assert caption(figure) == "from the file nagle-off.pcap.gz"


def test_ladder_silence_is_between_the_packets_around_it() -> None:
    segments, connection, rows = stalled()
    figure = ladder(segments, connection, rows=rows)
    silence = next(shape for shape in figure.layout.shapes if shape.type == "rect")
    down = [arrow[0] for arrow in arrows(figure)]
    assert down[1] < silence.y0 < silence.y1 < down[2]


def test_ladder_times_are_since_the_first_packet_drawn() -> None:
    segments, connection, rows = stalled()
    packets = segments[segments["connection"] == connection].loc[rows[0] : rows[1]]
    since = (packets["time_ns"] - packets["time_ns"].iloc[0]) / 1e6
    assert [
        text
        for text in texts(ladder(segments, connection, rows=rows))
        if text in {f"{ms:,.3f}" for ms in since}
    ] == [f"{ms:,.3f}" for ms in since]


def test_ladder_takes_the_connection_of_its_first_packet() -> None:
    segments, connection, rows = stalled()
    figure = ladder(segments, rows=rows)
    assert len(arrows(figure)) == 5 and f"connection {connection}" in figure.layout.title.text


def test_ladder_dashes_and_labels_retransmissions() -> None:
    segments = read(FOLDER / "outage.pcap")
    figure = ladder(segments, 0, rows=(14, 53))
    again = [trace for trace in figure.data if trace.line.color == VERMILION]
    marked = marks(segments).loc[14:53]
    assert {trace.line.dash for trace in again} == {"dash"}
    assert sum(len(trace.x) // 3 for trace in again) == marked["retransmission"].sum()
    words = texts(figure)
    assert words.count("spurious<br>retransmission") == marked["spurious_retransmission"].sum() == 3
    assert words.count("retransmission") == 9 - 3
    assert any(
        "retransmission timeout<br>the client waits for the server" in text for text in words
    )


def test_ladder_labels_acks_of_uncaptured_bytes() -> None:
    segments = read(FOLDER / "outage.pcap")
    missed = segments.index[segments["payload_bytes"] > 0][5]
    assert "ACK of<br>uncaptured data" not in texts(ladder(segments, 0, rows=(0, 40)))
    assert "ACK of<br>uncaptured data" in texts(
        ladder(segments.drop(index=missed), 0, rows=(0, 40))
    )


def test_ladder_of_forty_packets_has_room_for_text() -> None:
    """Rows of a table and their text are at least 24 pixels apart."""
    segments = read(FOLDER / "lossy.pcap.gz")
    for packets in (10, 40):
        figure = ladder(segments, 0, rows=(100, 99 + packets))
        down = [arrow[0] for arrow in arrows(figure)]
        top, bottom = figure.layout.yaxis.range[1], figure.layout.yaxis.range[0]
        plot = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
        assert len(down) == packets
        assert min(b - a for a, b in itertools.pairwise(down)) * plot / (bottom - top) >= 24


def test_ladder_refuses_what_cannot_be_drawn() -> None:
    segments = read(NAGLE)
    with pytest.raises(BadInput, match=f"at most {MOST_PACKETS} fit"):
        ladder(read(FOLDER / "lossy.pcap.gz"))
    with pytest.raises(BadInput, match="rows 0 to 1139 and connections 0 to 19"):
        ladder(segments, 99)
    with pytest.raises(BadInput, match="no TCP at all"):
        ladder(segments[:0])


def test_time_sequence_of_the_lossy_run() -> None:
    segments = read(FOLDER / "lossy.pcap.gz")
    figure = time_sequence(segments, 0, source=FOLDER / "lossy.pcap.gz")
    traces = named(figure)
    marked = marks(segments)
    sent_again = marked["retransmission"].sum()
    assert f"retransmission ({sent_again})" in traces and sent_again == 3
    assert f"out of order ({marked['out_of_order'].sum()})" in traces
    data = segments[(segments["direction"] == 1) & (segments["payload_bytes"] > 0)]
    bars = traces["data of the server"]
    assert len(bars.x) == 3 * len(data)
    assert bars.y[1] - bars.y[0] == data["payload_bytes"].iloc[0]
    acked, edge = traces["acknowledged by the client"], traces["edge of the window"]
    assert list(acked.y) == sorted(acked.y)
    assert all(high >= low for high, low in zip(edge.y, acked.y, strict=True))
    assert figure.layout.xaxis.title.text == "seconds since the connection's first segment"
    assert figure.layout.yaxis.title.text == "sequence number (bytes)"


def test_time_sequence_marks_a_closed_window_and_cuts_out_seconds() -> None:
    segments = read(FOLDER / "stopped-reader.pcap")
    figure = time_sequence(segments, 0, seconds=(0, 1.0))
    assert "zero window (2)" in named(figure) and "window full (1)" in named(figure)
    assert max(named(figure)["edge of the window"].x) <= 1.0


def test_time_sequence_thins_segments_but_not_the_marked() -> None:
    segments = read(FOLDER / "reordered.pcap.gz")
    many = pandas.concat([segments] * 20, ignore_index=True)
    assert ((many["direction"] == 1) & (many["payload_bytes"] > 0)).sum() > MOST_POINTS
    figure = time_sequence(many, 0)
    assert len(named(figure)["data of the server"].x) <= 3 * MOST_POINTS
    assert "th segment is drawn" in caption(figure)


def test_time_sequence_of_nothing() -> None:
    segments = read(FOLDER / "stopped-reader.pcap")
    assert "sends no data there" in " ".join(texts(time_sequence(segments, 0, direction=1)))
    with pytest.raises(BadInput, match="connections 0 to 1"):
        time_sequence(segments, 7)
    with pytest.raises(BadInput, match="no TCP at all"):
        time_sequence(segments[:0], 0)


def test_latency_as_shares_with_medians() -> None:
    series = {
        "off": exchanges(read(NAGLE))["latency_ms"],
        "on": exchanges(read(FOLDER / "nagle-on.pcap.gz"))["latency_ms"],
    }
    figure = latency(series, below_ms=1.0, source="two captures", lines_ms={"a timer": 40})
    traces = named(figure)
    assert list(traces) == ["off", "on"]
    assert [shape.x0 for shape in figure.layout.shapes if shape.type == "line"] == [40]
    assert "a timer" in texts(figure)
    assert "median 43.7 ms, n = 200" in figure.data[0].name
    assert traces["off"].y[-1] == 100 and traces["off"].x[-1] == pytest.approx(series["off"].max())
    at_20 = [y for x, y in zip(traces["off"].x, traces["off"].y, strict=True) if x < 20]
    assert at_20[-1] == pytest.approx(10)  # 20 of 200 do not stall
    assert traces["off"].line.dash != traces["on"].line.dash
    assert any("times below 1 ms are not meaningful" in text for text in texts(figure))
    assert figure.layout.xaxis.title.text == "time per request (ms) (logarithmic)"
    assert figure.layout.yaxis.title.text == "share (%)"


def test_latency_leaves_out_unknown_times() -> None:
    nan = float("nan")
    assert "n = 2" in latency({"a": [1.0, nan, 2.0], "b": [nan]}).data[0].name
    assert len(latency({"a": [1.0], "b": [nan]}).data) == 1
    assert "no request was answered" in " ".join(texts(latency({"b": [nan]})))


def test_time_to_ack_beside_the_timers() -> None:
    acks = time_to_ack(read(NAGLE))
    figure = chart_of_acks({"off": acks}, source=NAGLE)
    assert figure.data[0].name.endswith("n = 400")  # both parts of 200 answers
    assert [shape.x0 for shape in figure.layout.shapes] == [40, 200]
    words = " ".join(texts(figure))  # include/net/tcp.h TCP_ATO_MIN, TCP_DELACK_MAX
    assert "40 ms" in words and "200 ms" in words
