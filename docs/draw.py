"""Draw the figures in docs/ again: topology.svg, throughput.png from the recorded runs, and
model-errors.png from the stored points of the model.

    make figure

plotly draws the pictures in a browser: chromium or google-chrome (on Debian:
apt-get install chromium). It runs without a window and without a network.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from plotly.graph_objects import Figure

if __package__ in (None, ""):  # started as a file: its folder is on the path, the project is not
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import labs
from benchmarks.model import flow_of
from benchmarks.model_chart import Error, spread
from benchmarks.model_errors import GOAL_95_PCT, GOAL_WORST_PCT
from benchmarks.points import read
from labs.errors import LabError, Missing, RunFailed
from labs.read.theory.bulk import transfer

PICTURE, MODEL = (Path(__file__).with_name(name) for name in ("throughput.png", "model-errors.png"))
MEASURED = Path(__file__).parent.parent / "tests" / "fixtures" / "theory"
POINTS = {point.name: point for name in ("a", "wget", "discard") for point in read(name)}
TOPOLOGY = Path(__file__).with_name("topology.svg")
RATE_MBIT, DELAY_MS = 1000.0, 200.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SHOWN = "unshaped,shaped,default,wmem,both"
WIDTH_PX, SCALE = 900, 2
PAGE = "<!DOCTYPE html><meta charset='utf-8'><style>body{{margin:0}}</style>{figure}"


def throughput() -> Figure:
    """The downloads of the article."""
    p = labs.check("buffers", {"TESTBED": "recorded", "ONLY": SHOWN})
    figure = labs.charts.buffers.by_condition(labs.study(p).results())
    return figure.update_layout(width=WIDTH_PX)


def model_errors() -> Figure:
    """The errors of the model at the points that were measured (tests/fixtures/theory)."""
    errors = []
    for file in ("transfers.json", "downloads.json"):
        for measured in json.loads((MEASURED / file).read_text(encoding="utf-8"))["points"]:
            point = POINTS[measured["name"]]
            predicted = transfer(flow_of(point), point.transfer_bytes)
            if not predicted.cannot_say:
                error = max(
                    abs(predicted.goodput_bytes_s / measured["goodput_bytes_s"] - 1),
                    abs(predicted.steady_bytes_s / measured["steady_bytes_s"] - 1),
                )
                writer = f"nginx, {point.client}" if point.client else "iperf3"
                errors.append(Error(100 * error, point.kernel, predicted.bound, writer))
    figure = spread(errors, GOAL_95_PCT, GOAL_WORST_PCT)
    return figure.update_layout(width=WIDTH_PX)


def draw(figure: Figure, picture: Path) -> None:
    """Write the figure as PNG. Missing without a browser; RunFailed if it draws nothing."""
    html = figure.to_html(full_html=False, include_plotlyjs=True, config={"staticPlot": True})
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise Missing(
            f"no browser to draw with ({', '.join(BROWSERS)}); on Debian: apt-get install chromium"
        )
    with tempfile.TemporaryDirectory() as work:
        page, shot = Path(work, "page.html"), Path(work, "shot.png")
        page.write_text(PAGE.format(figure=html), encoding="utf-8")
        argv = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--virtual-time-budget=10000",
            f"--user-data-dir={work}/profile",
            f"--force-device-scale-factor={SCALE}",
            f"--window-size={WIDTH_PX},{int(figure.layout.height)}",
            f"--screenshot={shot}",
            page.as_uri(),
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        if done.returncode or not shot.is_file():
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise RunFailed(f"{browser} drew nothing: {last}")
        shutil.copyfile(shot, picture)


if __name__ == "__main__":
    TOPOLOGY.write_text(labs.topology(rate_mbit=RATE_MBIT, delay_ms=DELAY_MS), encoding="utf-8")
    try:
        for make, picture in ((throughput, PICTURE), (model_errors, MODEL)):
            draw(make(), picture)
            print(picture)
    except LabError as error:
        print(f"labs: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
