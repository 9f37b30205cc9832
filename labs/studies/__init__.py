"""Studies: the runs that the parameters describe, performed or reused, and their results.

A notebook imports this package before pandas and plotly. These and a study create some hundred
thousand objects, and nearly all of them stay. With Python's threshold of 700 new objects the
garbage collector would traverse them again and again, which takes a tenth of a notebook's CPU time.
"""

import gc

NEW_OBJECTS = 100_000
"""How many new objects start a collection. Plain objects of this number take about 10 MB."""

gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
