"""Draw the figures in docs/ again: topology.svg, and throughput.png from the recorded runs.

    make figure

plotly draws the second one in a browser: chromium or google-chrome (on Debian:
apt-get install chromium). It runs without a window and without a network.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import labs
from labs.errors import LabError, Missing, RunFailed

PICTURE = Path(__file__).with_name("throughput.png")
TOPOLOGY = Path(__file__).with_name("topology.svg")
RATE_MBIT, DELAY_MS = 1000.0, 200.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SHOWN = "unshaped,shaped,default,wmem,both"
WIDTH_PX, SCALE = 900, 2
PAGE = "<!DOCTYPE html><meta charset='utf-8'><style>body{{margin:0}}</style>{figure}"


def draw(picture: Path) -> None:
    """Write the figure as PNG. Missing without a browser; RunFailed if it draws nothing."""
    p = labs.check("buffers", {"TESTBED": "recorded", "ONLY": SHOWN})
    figure = labs.charts.buffers.by_condition(labs.study(p).results())
    figure.update_layout(width=WIDTH_PX)
    html = figure.to_html(full_html=False, include_plotlyjs=True, config={"staticPlot": True})
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
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
        draw(PICTURE)
    except LabError as error:
        print(f"labs: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(PICTURE)
