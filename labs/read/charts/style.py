"""What all figures share: colours that colour-blind readers can tell apart, and the caption."""

from __future__ import annotations

from plotly.graph_objects import Figure

# Okabe and Ito's palette.
BLACK, GREY = "#1b1f24", "#6b7280"
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GRID, PAPER = "#e5e7eb", "#ffffff"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
# Pixels below the plot: tick labels and the axis title, then the caption.
TO_CAPTION_PX, CAPTION_PX = 62, 26


def dressed(figure: Figure, *, title: str, caption: str, height: int) -> Figure:
    """Give a figure the common looks, its title, and below it the line that says where its
    numbers are from."""
    figure.update_layout(
        title={
            "text": title,
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "yref": "container",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 14},
            "font": {"size": 17},
        },
        height=height,
        paper_bgcolor=PAPER,
        plot_bgcolor=PAPER,
        template="none",
        font={"family": FONT, "size": 13, "color": BLACK},
        hoverlabel={"font": {"family": FONT}},
        margin={"l": 70, "r": 24, "t": 84, "b": TO_CAPTION_PX + CAPTION_PX},
    )
    axis = {
        "gridcolor": GRID,
        "zeroline": False,
        "showline": True,
        "linecolor": GREY,
        "ticks": "outside",
        "tickcolor": GREY,
        "automargin": True,
        "title_font_size": 13,
        "title_standoff": 6,
    }
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.add_annotation(
        text=caption,
        name="caption",
        showarrow=False,
        xref="paper",
        yref="paper",
        x=0,
        y=0,
        xanchor="left",
        yanchor="top",
        yshift=-TO_CAPTION_PX,
        font={"size": 12, "color": GREY},
    )
    return figure


def nothing(title: str, why: str) -> Figure:
    """A figure that says why there is nothing to see."""
    figure = Figure()
    figure.add_annotation(
        text=why, showarrow=False, xref="paper", yref="paper", x=0, y=0.5, xanchor="left"
    )
    dressed(figure, title=title, caption="", height=200)
    return figure.update_xaxes(visible=False).update_yaxes(visible=False)
