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

`lines.Lines` has a column against another; with `lines={column: name}`, several columns of the
same rows over time. `bars.Bars` has a row of bars for each condition. `panels.Panels` has several
such plots below each other, or one plot for each value of a column. `declaration.Declared` says
what all forms share. `style` has colours, captions and ticks.
"""
