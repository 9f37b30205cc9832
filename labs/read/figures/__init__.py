"""Figures as declarations: a value says what stands where, and is drawn when it is called.

A figure names its rows, its axes and its series; prediction, words and units are those of the lab's
columns (`of=Results`). Caption, hover, legend, ticks, text alternative and the table of its numbers
follow. What a form draws is in the docstring of its class. ::

    utilisation = Lines(
        "Utilisation against the size of a FIFO",
        rows=in_group(BUFFERS),                    # or any function that makes a table
        of=Results,
        empty="none of these runs varies the size of a FIFO",
        x=Axis("buffer_bdp", "size of the FIFO", log=True, ticks=POINTS),
        y="utilisation_pct",
        by="controls",                             # a line for each value
        predicted=Prediction(each=True, name="{}, predicted"),
        marks=(Mark("bdp_bytes", "BDP {size}"),),  # a column's median, a number, or computed
    )
    utilisation(study.results())                   # a plotly figure

    segments = Bars(
        "Segments and ACKs per response",
        of=Results,
        words="number per response",
        bars=(
            Bar("segments_per_answer", "segments of the server", BLUE),
            Bar("mean_ms", "measured, mean", SKY, published="article_ms"),
        ),
    )

    memory = Lines(                                # over time: rows from a run, columns as lines
        "Receive buffer",
        rows=packets,
        x=Axis("time_s", "time", "s"),
        y=Axis("rmem_bytes", "memory", ticks=SIZES),
        lines={"rmem_bytes": "memory in use", "rcvbuf_bytes": "buffer"},
        looks={"rcvbuf_bytes": Look(BLACK, "dashdot")},
        mode="lines",
        moments=12,
    )

`lines.Lines` has a column against another, in lines, points or upright bars, `bars.Bars` a row of
bars for each condition, `intervals.Intervals` a middle with its interval (both are
`named_rows.NamedRows`), `heatmap.HeatMap` a column over two others. `panels.Panels` has such forms
below each other, `panels.Together` in one pair of axes, `panels.Multiples` one form for each value
of a column, or of two. `small_multiples` draws a table over varied parameters with them.
`declaration.Declared` says what all forms share: `title`, `rows`, `of`, `empty`, `caption`, `note`,
`describe`, `table`. A form has a `panel`, which is a `plot.Plot`, a `text_of`, a `table_of` and, if
it can be shown in `steps`, their places. Rows that are made from runs or studies need the columns
that `of_table` reads, or a `caption`.
`marks.Mark` is a line or a band across a plot, with words where they hide nothing.

`plot` has the traces and texts that all forms are made of, `style` colours, captions, ticks.
`ladder` draws packets; `steps.of` shows a figure up to one of its steps after another.
"""
