"""What a figure loads in a notebook: each start of a kernel pays for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

# nbformat loads jsonschema, which compiles a grammar.
SLOW = ("nbformat", "fastjsonschema", "jsonschema", "lark")
NOTEBOOK = f"""
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell = InteractiveShell.instance()
with capture_output() as shown:
    shell.run_cell("import labs; from labs.read.figures.style import nothing")
    shell.run_cell("nothing('A title', 'no runs')").raise_error()
    shell.run_cell("grades = labs.grade('00-start-here', {{}})").raise_error()
(output,) = shown.outputs
figure = output.data["application/vnd.plotly.v1+json"]
loaded = [name for name in {SLOW} if name in sys.modules]
print(json.dumps([figure["layout"]["title"]["text"], shell.user_ns["grades"].shape[0], loaded]))
import nbformat
print(nbformat.__file__)
"""


def test_figure_in_a_notebook_loads_nothing_slow() -> None:
    words = (sys.executable, "-c", NOTEBOOK)
    chosen = os.environ | {"PLOTLY_RENDERER": "plotly_mimetype"}
    done = subprocess.run(words, env=chosen, capture_output=True, text=True, check=True)
    printed, nbformat_itself = done.stdout.splitlines()
    assert json.loads(printed) == ["A title", 3, []]
    assert nbformat_itself.endswith("__init__.py")
