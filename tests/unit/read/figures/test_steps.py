"""Charts in steps: which steps a figure has, what each of them shows, and what stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plotly.graph_objects import Figure, Scatter

from labs.errors import BadInput
from labs.publish.figures import figure_html
from labs.read.capture import read
from labs.read.figures import steps
from labs.read.figures.ladder import ladder
from labs.read.figures.style import dressed, nothing
from labs.read.flows.exchanges import ARTICLE_OFF, exchanges

NAGLE = Path(__file__).parents[3] / "fixtures" / "exchanges" / "nagle-off.pcap.gz"


def curve(xs: list[float], *more: Any, steps: Any = None, **layout: Any) -> Figure:
    line = Scatter(x=xs, y=[2 * x for x in xs], mode="lines+markers", name="measured")
    return dressed(
        Figure([line, *more], layout),
        title="A curve",
        caption="from a test",
        height=300,
        tell="A line.",
        table=None,
        steps={"x": [(x, f"{x:g}") for x in xs]} if steps is None else steps,
    )


def values(figure: Figure, step: int, trace: int, axis: str = "y") -> list[Any]:
    return list(figure.frames[step].data[trace][axis])


def test_few_points_are_the_steps_and_the_last_shows_all() -> None:
    figure = steps.of(curve([1, 2, 4]))
    assert [frame.name for frame in figure.frames] == ["0", "1", "2"]
    assert [values(figure, step, 0) for step in range(3)] == [
        [2, None, None],
        [2, 4, None],
        [2, 4, 8],
    ]
    assert list(figure.data[0].y) == [2, 4, 8]  # without controls, as in print
    assert figure.layout.yaxis.range[0] < 2 and figure.layout.yaxis.range[1] > 8


def test_a_long_line_is_thinned_and_has_no_more_steps_than_a_slider_holds() -> None:
    figure = steps.of(curve([float(x) for x in range(1000)]))
    assert len(figure.frames) == steps.MOST_STEPS
    assert len(figure.data[0].x) <= steps.MOST_POINTS + 1
    assert figure.data[0].x[-1] == 999


def test_a_figure_that_declares_no_steps_stays_as_it_is() -> None:
    whole = curve([1, 2, 4], steps={})
    assert steps.of(whole) is whole
    assert len(steps.of(whole, at=(1, 4)).frames) == 2


def test_given_places_end_the_axis() -> None:
    figure = steps.of(curve([float(x) for x in range(100)]), at=(5, 10, 20))
    assert figure.layout.xaxis.range[1] == pytest.approx(20.4)
    assert max(figure.data[0].x) == 20
    shown = [value for value in values(figure, 0, 0) if value is not None]
    assert shown == [0, 2, 4, 6, 8, 10]


def test_lines_without_hover_text_are_shown_in_every_step() -> None:
    limit = Scatter(x=[0, 9], y=[5, 5], mode="lines", hoverinfo="skip", name="limit")
    figure = steps.of(curve([1, 2, 4], limit))
    assert list(figure.data[1].y) == [5, 5]
    assert [frame.traces for frame in figure.frames] == [(0,)] * 3
    assert not any(frame.layout.annotations for frame in figure.frames)  # none has a place


def test_a_figure_declares_its_steps() -> None:
    declared = {"x": [(2.0**20, "size: 1 MiB"), (2.0**21, "size: 2 MiB")]}
    figure = steps.of(curve([2.0**20, 2.0**21], steps=declared, xaxis={"title": {"text": "size"}}))
    assert figure.layout.meta["steps"] == ["size: 1 MiB", "size: 2 MiB"]


def test_marks_appear_where_they_are() -> None:
    marks = {
        "shapes": [{"type": "line", "x0": 100, "x1": 100, "y0": 0, "y1": 1, "yref": "y domain"}],
        "annotations": [{"x": 2, "y": 1, "text": "hundred"}],  # the logarithm of 100
    }
    figure = steps.of(curve([10, 100], xaxis={"type": "log"}, **marks))
    for step, visible in ((0, False), (1, True)):
        layout = figure.frames[step].layout
        assert layout.shapes[0].visible is visible
        assert layout.annotations[0].visible is visible
        assert layout.annotations[-1].name == "caption" and layout.annotations[-1].visible


def test_a_ladder_plays_packet_by_packet_and_names_the_silence() -> None:
    segments = read(NAGLE)
    rows = exchanges(segments)
    request = rows[rows["steps"] == ARTICLE_OFF].iloc[0]
    places = (int(request["first_row"]), int(request["last_row"]))
    whole = ladder(segments, int(request["connection"]), rows=places, source=NAGLE)
    figure = steps.of(whole, along="y")
    arrows = sum(x is None for trace in whole.data for x in trace.x)
    silences = sum(shape.type == "rect" for shape in whole.layout.shapes)
    assert len(figure.frames) == arrows + silences
    quiet = [name for name in figure.layout.meta["steps"] if "of silence" in name]
    assert len(quiet) == silences >= 1
    drawn = [
        sum(value is not None for trace in frame.data for value in trace.x) // 2
        for frame in figure.frames
    ]
    assert drawn[0] == 1 and drawn[-1] == arrows and drawn == sorted(drawn)


def test_a_note_instead_of_a_chart_stays_as_it_is() -> None:
    note = nothing("A chart", "there are no runs")
    assert steps.of(note) is note


@pytest.mark.parametrize("at", [(3,), (2, 1), (1, 1), tuple(range(41))])
def test_of_refuses_places_that_do_not_ascend(at: tuple[float, ...]) -> None:
    with pytest.raises(BadInput, match="Allowed: 2 to 40, in ascending order"):
        steps.of(curve([1, 2]), at=at)


def test_of_refuses_an_axis_with_names() -> None:
    with pytest.raises(BadInput, match="its axes have names"):
        steps.of(curve([1, 2], Scatter(x=["a", "b"], y=[1, 2])))


def test_of_refuses_another_axis() -> None:
    with pytest.raises(BadInput, match=r"Allowed: x, y"):
        steps.of(curve([1, 2]), along="z")


def test_page_has_controls_of_its_own() -> None:
    """A slider that the keyboard reaches, instead of plotly's; in print neither is seen."""
    figure = steps.of(curve([1, 2, 4], xaxis={"title": {"text": "load"}}), at=(1, 2, 4))
    html = figure_html(figure.to_plotly_json(), 1)
    assert '<input type="range" min="0" max="2" value="2"' in html
    assert "<output>load: 4</output>" in html and "In 3 steps" in html
    assert '"frames"' in html and "sliders" not in html and "updatemenus" not in html


def test_page_has_the_caption_outside_the_plot_in_every_step() -> None:
    figure = steps.of(curve([1, 2, 4], annotations=[{"name": "mark", "text": "here", "x": 2}]))
    html = figure_html(figure.to_plotly_json(), 1)
    data = html.partition('<script type="application/json">')[2].partition("</script>")[0]
    drawn = json.loads(data)
    for layout in (drawn["layout"], *(frame["layout"] for frame in drawn["frames"])):
        assert [words["name"] for words in layout["annotations"]] == ["mark"]


def test_axes_that_match_have_one_range() -> None:
    """The lower plot has fewer points, and would end the upper one, too."""
    figure = curve([1, 2, 4], Scatter(x=[1, 2], y=[1, 1], xaxis="x2", yaxis="y2"))
    figure.update_layout(xaxis={"matches": "x2"}, xaxis2={}, yaxis2={})
    layout = steps.of(figure).layout
    assert layout.xaxis.range == layout.xaxis2.range and layout.xaxis.range[1] > 4
