"""JupyterLab on a folder of its own, and a notebook that is open in it."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "notebooks" / "00-start-here.ipynb"
STARTS_S, RUNS_MS = 180, 600_000
# The whole notebook is in the page, and no question is asked over it.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}
STATE = """() => {
  const { context } = jupyterapp.shell.currentWidget;
  const kernel = context.sessionContext.session?.kernel;
  return { cells: context.model.toJSON().cells, status: kernel?.status, kernel: kernel?.id };
}"""


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """JupyterLab on a folder, with settings of its own; its address with the token."""
    home, token, port = folder / "home", secrets.token_hex(16), _free_port()
    for plugin, settings in SETTINGS.items():
        file = home / "config" / "lab" / "user-settings" / "@jupyterlab"
        path = file / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))
    own = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "IPYTHONDIR": "ipython"}
    environment = {
        **os.environ,
        **{name: str(home / part) for name, part in own.items()},
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "PYTHONPATH": str(ROOT),
        "JUPYTER_TOKEN": token,
    }
    argv = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    argv += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--ip=127.0.0.1"]
    argv += [f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"]
    with (home / "log").open("w") as log:
        started = subprocess.Popen(
            argv, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/status?token={token}", started, home / "log")
            yield f"http://127.0.0.1:{port}/lab/tree/{NOTEBOOK.name}?token={token}"
        finally:
            started.terminate()  # it ends its kernels
            try:
                started.wait(20)
            finally:
                if started.poll() is None:
                    os.killpg(started.pid, signal.SIGKILL)


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _wait_for(url: str, started: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + STARTS_S
    while time.monotonic() < until and started.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.3)
    pytest.fail(f"JupyterLab did not start: {log.read_text()[-2000:]}")


@dataclass
class Notebook:
    """The notebook as it is open in JupyterLab; what is read of it is JupyterLab's own model."""

    page: Page

    def cells(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.page.evaluate(STATE)["cells"]
        return found

    def kernel(self) -> str:
        return str(self.page.evaluate(STATE)["kernel"])

    def tagged(self, tag: str) -> list[dict[str, Any]]:
        return [one for one in self.cells() if tag in one["metadata"].get("tags", [])]

    def widget(self, cell: dict[str, Any]) -> Locator:
        place = [one["id"] for one in self.cells()].index(cell["id"])
        return self.page.locator(".jp-Notebook .jp-Cell").nth(place)

    def run_all(self) -> None:
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
        self.page.locator('.lm-Menu-item[data-command="runmenu:run-all"]').click()
        self.wait()

    def wait(self) -> None:
        """Until no cell is running."""
        self.page.wait_for_timeout(500)
        self.page.wait_for_function(
            f"() => ({STATE})().status === 'idle' && "
            "![...document.querySelectorAll('.jp-InputPrompt')]"
            ".some(it => it.textContent.includes('[*]'))",
            timeout=RUNS_MS,
        )

    def write(self, cell: dict[str, Any], source: str) -> None:
        """Replace a cell's text by typing."""
        editor = self.widget(cell).locator(".cm-content")
        editor.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(source)
        found = next(one for one in self.cells() if one["id"] == cell["id"])
        assert found["source"] == source

    def run(self, cell: dict[str, Any]) -> list[dict[str, Any]]:
        """Run one cell, and return its outputs."""
        self.widget(cell).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        self.wait()
        outputs: list[dict[str, Any]] = next(
            one["outputs"] for one in self.cells() if one["id"] == cell["id"]
        )
        return outputs

    def charts(self) -> int:
        """How many charts are drawn."""
        return self.page.locator(".jp-OutputArea .js-plotly-plot .main-svg .trace").count()


def outputs(cell: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cell.get("outputs", [])
    return found


def errors(cells: list[dict[str, Any]]) -> list[str]:
    found = (output for one in cells for output in outputs(one))
    return [str(output["evalue"]) for output in found if output["output_type"] == "error"]
