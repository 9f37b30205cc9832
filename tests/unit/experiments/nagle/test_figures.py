"""What notebook 03 shows of the lab `nagle`, from its recorded study."""

from __future__ import annotations

from math import log10
from pathlib import Path
from typing import Any

import pandas
import pytest
from plotly.graph_objects import Figure

from labs.experiments.nagle import figures as nagle
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.experiments.nagle.figures import means, sequences
from labs.read.display.beside import beside_wireshark
from labs.read.readings.responses import own_requests, own_table, packets_of, requests_of, typical
from labs.studies.study import study
from tests.delayed_answers import STALL_MS, delayed, usual_ms
from tests.real_runs import nagle_run, recorded_nagle

FOUR = ("off", "quickack", "on", "on-quickack")


def table() -> Any:
    return recorded_nagle().results()


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> str:
    return " | ".join(str(note.text) for note in figure.layout.annotations)


def test_tables_of_figures_have_no_time_without_meaning() -> None:
    rows = table()[table()["condition"].isin(["off", "on"])]
    heads, (off, on) = nagle.by_condition(rows).layout.meta["table"].values()
    cells_of_on = dict(zip(heads, on, strict=True))
    assert [cells_of_on[name] for name in heads if name.endswith("(ms)")] == [
        *["below 1"] * 2,
        "14.29",
        *["below 1"] * 2,
    ]
    assert "below 1" not in off
    real = nagle.by_condition(rows.assign(testbed="namespaces")).layout.meta["table"]
    assert "below 1" not in str(real)
    cells = nagle.matrix(recorded_nagle()).layout.meta["table"]["rows"]
    assert [row.count("below 1") for row in cells] == [0, 3, 3, 3]


def shares(figure: Figure) -> list[dict[float, float]]:
    """Of each cell: the share of each step that has some, by the middle of the step."""
    bars = [trace for trace in figure.data if trace.type == "bar"]
    pairs = (zip(cell.x, cell.y, strict=True) for cell in bars)
    return [{middle: share for middle, share in cell if share == share} for cell in pairs]


def step_of(figure: Figure) -> float:
    first, second, *_ = next(trace for trace in figure.data if trace.type == "bar").x
    return float(second - first)


def test_matrix_has_a_cell_for_each_of_the_four() -> None:
    figure = nagle.matrix(recorded_nagle())
    cells = shares(figure)
    assert len(cells) == 4
    for cell in cells:
        assert sum(cell.values()) == pytest.approx(100)
    # Nine of ten requests stall in the first cell; all are below 1 ms in the others. A stall ends
    # at a tick (250 Hz), so it has 40 to 44 ms; most begin right after one.
    stalled = [share for ms, share in cells[0].items() if 40 <= ms <= 44]
    assert sum(stalled) == pytest.approx(90, abs=0.5) and max(stalled) > 80
    assert max(cells[0], key=lambda ms: cells[0][ms]) == pytest.approx(43.5)
    assert [[*cell.values()] for cell in cells[1:]] == [[100], [100], [100]]
    assert texts(figure).count("predicted below 1 ms") == 3
    assert "predicted 44.0 ms" in texts(figure) and "all but the first request" in texts(figure)


@pytest.mark.parametrize("delay_ms", [20, 200, 2000])
def test_matrix_follows_the_delay_and_drops_nothing(tmp_path: Path, delay_ms: int) -> None:
    figure = nagle.matrix(delayed(tmp_path, delay_ms))
    step = step_of(figure)
    low, high = figure.layout.xaxis.range
    for cell, condition in zip(shares(figure), nagle.CELLS, strict=True):
        assert sum(cell.values()) == pytest.approx(100)
        assert low <= min(cell) - step / 2 and max(cell) + step / 2 <= high
        usual = next(middle for middle, share in cell.items() if share == max(cell.values()))
        assert abs(usual - usual_ms(condition, delay_ms)) <= step / 2
        # Without the stall the first of ten requests is in a step of its own if steps are short.
        assert max(cell.values()) == (90 if condition == "off" and step < STALL_MS else 100)
    assert 30 <= high / step <= 61
    assert f"link as asked ({delay_ms}.0 ms) · " in texts(figure)
    assert "90 % stall" in texts(figure)
    assert "no prediction" not in texts(figure)
    if delay_ms == 20:
        assert "predicted 84.0 ms" in texts(figure)
        lines = [shape.x0 for shape in figure.layout.shapes]
        assert lines == [84, 40, 20, 20]


def test_matrix_has_one_late_request(tmp_path: Path) -> None:
    figure = nagle.matrix(delayed(tmp_path, 20, late_ms=3000))
    for cell, condition in zip(shares(figure), nagle.CELLS, strict=True):
        assert sum(cell.values()) == pytest.approx(100) and cell[max(cell)] == pytest.approx(5)
        late = 3000 + usual_ms(condition, 20)
        assert abs(max(cell) - late) <= step_of(figure) / 2
        assert late < figure.layout.xaxis.range[1]


@pytest.mark.parametrize("delay_ms", [20, 200, 2000])
def test_distribution_and_acks_follow_the_delay(tmp_path: Path, delay_ms: int) -> None:
    study = delayed(tmp_path, delay_ms)
    for figure in (nagle.distribution(study), nagle.acks(study)):
        low, high = figure.layout.xaxis.range
        for line in figure.data:
            assert low < log10(min(line.x)) <= log10(max(line.x)) < high
            assert (line.y[0], line.y[-1]) == (0, 100)
        assert f"link as asked ({delay_ms}.0 ms) · " in texts(figure)
        assert "(logarithmic)" in figure.layout.xaxis.title.text
    figure = nagle.distribution(study)
    assert "not meaningful" not in texts(figure)
    longest = [max(line.x) for line in series(figure)]
    assert longest == pytest.approx([usual_ms(name, delay_ms) for name in study.conditions])
    # Every request of the captures is in the figure.
    assert [counted(line) for line in series(figure)] == [20, 20, 20, 20]
    # Each of a connection's 10 responses is two segments, as in the capture.
    assert [counted(line) for line in series(nagle.acks(study))] == [40, 40, 40, 40]


def series(figure: Figure) -> list[Any]:
    return [trace for trace in figure.data if "median" in trace.name]


def counted(line: Any) -> int:
    return int(line.name.rpartition("n = ")[2].replace(",", ""))


@pytest.mark.parametrize("mean_ms", [20.0, 200.0, 2000.0])
@pytest.mark.parametrize("chosen", ["o|quick", "write|body|whole", "ask"])
def test_by_condition_draws_every_condition_at_any_time(mean_ms: float, chosen: str) -> None:
    """The charts of the article's conditions, of writes and of quick ACKs."""
    rows = table()[table()["condition"].str.match(chosen)]
    rows = rows.assign(mean_ms=mean_ms, predicted_mean_ms=1.1 * mean_ms, article_ms=1.2 * mean_ms)
    figure = nagle.by_condition(rows)
    drawn, end = named(figure), figure.layout.xaxis.range[1]
    assert list(drawn["measured, mean"].x) == [mean_ms] * len(rows)
    assert drawn["predicted"].x[::3] == pytest.approx([1.1 * mean_ms] * len(rows))
    assert list(drawn["the article"].x) == pytest.approx([1.2 * mean_ms] * len(rows))
    assert end > 1.2 * mean_ms
    assert all(f"<b>{name}</b>" in texts(figure) for name in rows["condition"])


def test_segments_draw_a_prediction_beyond_all() -> None:
    figure = nagle.segments(table()[table()["condition"] == "pieces"].assign(predicted_segments=30))
    assert figure.layout.xaxis.range[1] > 30


def test_ladder_of_a_long_response_has_its_first_packets() -> None:
    path = Path(__file__).parents[3] / "fixtures" / "parse" / "loss.pcap"
    segments, requests = own_table(path), own_requests(path)
    figure = nagle.ladder_of_request(segments, typical(requests), path)
    assert figure.layout.title.text == (
        "One request, the first of 263 packets: 120 packets of connection 0"
    )
    assert "from the file loss.pcap" in texts(figure)


def test_sequences_with_more_packets_name_their_requests() -> None:
    rows = requests_of(nagle_run("off"))
    firsts = rows[rows["request"] == 0]
    shown = sequences({"off": firsts.assign(segments=firsts["segments"] + 1)})
    assert list(shown["Requests"]) == [100] and list(shown["Which"]) == [
        "the first on their connection"
    ]


def test_beside_wireshark_has_our_marks_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    path = nagle_run("ask").file("server/capture.pcap")
    segments = own_table(path)
    rows = packets_of(segments, typical(own_requests(path)))
    monkeypatch.setenv("PATH", "/nowhere")
    assert str(beside_wireshark(path, segments, rows)).startswith("Wireshark's analysis is not")
    monkeypatch.undo()
    shown = beside_wireshark(path, segments, rows)
    if isinstance(shown, pandas.DataFrame):
        assert list(shown["From"]) == ["client", "server", "client", "server", "client"]
        assert shown["Wireshark's ack_rtt (s)"].map(
            lambda it: float(it or 0)
        ).max() == pytest.approx(0.044, abs=0.001)


def test_means_over_a_delay_are_higher_than_a_typical_request() -> None:
    """Two RTTs with one connection of a hundred, for 1000 requests: 40 ms / 10."""
    table = means(study(Nagle(testbed="recorded", delay_ms=20)), *FOUR).set_index("Condition")
    assert table["First requests (ms)"].tolist() == [-2.4, 2, 2, 2]
    assert table["Start of ab (ms)"].tolist() == [4, 4, 4, 4]
    assert (table["Measured mean (ms)"] > table["Typical request (ms)"]).all()
    assert table["Measured mean (ms)"].tolist() == pytest.approx(
        table["Predicted mean (ms)"].tolist(), abs=0.5
    )
