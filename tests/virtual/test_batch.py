"""Batches on the virtual testbed: killed and resumed, compared with papermill, with failures."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest

from labs.cli.__main__ import main
from labs.cli.new import EXAMPLE
from labs.drive.record.seal import HOST
from labs.read.batch_index import read_index
from tests.shown_conditions import not_shown

PLAN = """
lab: buffers
ONLY: default,both
TRANSFER_MIB: 1
BUFFER_MIB: 1
RATE_MBIT: [20, 40, 80, 160]
DELAY_MS: [2, 5, 10]
"""
RUNS = 24
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "00-start-here.ipynb"
LONGEST_S = 240.0


def begun(folder: Path) -> dict[str, str]:
    """When each complete run of a batch was begun."""
    return {
        host.parent.name: str(json.loads(host.read_text())["started"])
        for host in folder.glob(f"runs/buffers-*/{HOST}")
    }


def guests(folder: Path) -> list[str]:
    """The kernels and programs that run for a batch."""
    processes = subprocess.run(("pgrep", "-af", str(folder)), capture_output=True, text=True).stdout
    return [line for line in processes.splitlines() if " pgrep " not in line]


def killed(command: tuple[str, ...], folder: Path, more: int) -> None:
    """Start a batch, and kill it with -9 when it has so many more runs than before."""
    before = len(begun(folder))
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline_s = time.monotonic() + LONGEST_S
    while len(begun(folder)) < before + more and process.poll() is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_batch_killed_five_times_performs_every_run_once(tmp_path: Path) -> None:
    """A plan of 24 runs, killed with -9 at five random moments, after which no run is missing,
    none was performed twice, the index is exact, and nothing is left."""
    plan, into = tmp_path / "plan.yaml", tmp_path / "batch"
    plan.write_text(PLAN)
    command = (sys.executable, "-m", "labs.cli", "batch", str(plan), "--into", str(into))
    chance = random.Random(25)
    seen: dict[str, str] = {}
    for _ in range(5):
        killed(command, into, chance.randint(1, 4))
        time.sleep(chance.random())
        now = begun(into)
        assert now.items() >= seen.items()
        seen = now
    done = subprocess.run((*command, "--json"), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rows"] == {"made": RUNS}
    assert begun(into).items() >= seen.items() and len(begun(into)) == RUNS
    rows = read_index(into / "index.parquet").frame
    runs = {path.parent.name: path.parent for path in into.glob(f"runs/buffers-*/{HOST}")}
    digests = {json.loads((folder / "seal.json").read_text())["digest"] for folder in runs.values()}
    assert len(rows) == RUNS and set(rows["digest"]) == digests
    assert Counter(rows["condition"]) == {"default": 12, "both": 12}
    assert not list(into.glob("runs/.*")) and guests(into) == []


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notebook 00 over three rates, by papermill's own API, in a loop."""
    folder = tmp_path_factory.mktemp("by-hand")
    for number, rate in enumerate((20.0, 40.0, 80.0), 1):
        papermill.execute_notebook(
            str(NOTEBOOK),
            str(folder / f"{number:04d}.ipynb"),
            parameters={
                "RATE_MBIT": rate,
                "DELAY_MS": 10.0,
                "TRANSFER_MIB": 1,
                "RUNS": str(folder / "runs"),
            },
            cwd=str(folder),
            progress_bar=False,
        )
    return folder


def tables(path: Path) -> list[str]:
    """The tables that the cells of an executed notebook show."""
    cells = json.loads(path.read_text())["cells"]
    shown: list[Any] = [output for cell in cells for output in cell.get("outputs", ())]
    texts = ("".join(output.get("data", {}).get("text/html", ())) for output in shown)
    return [text for text in texts if "<table" in text]


def test_batch_of_a_notebook_equals_papermill_by_hand(
    by_hand: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same runs to the byte, and the same tables."""
    plan, into = tmp_path / "plan.yaml", tmp_path / "batch"
    plan.write_text(
        f"notebook: {NOTEBOOK}\nRATE_MBIT: [20, 40, 80]\nDELAY_MS: 10\nTRANSFER_MIB: 1\n"
    )
    assert main(["batch", str(plan), "--into", str(into), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["notebooks"] == 3 and set(report["rows"]) == {"made"}
    of_batch = {seal.parent.name: seal.read_bytes() for seal in into.glob("runs/*/seal.json")}
    of_loop = {seal.parent.name: seal.read_bytes() for seal in by_hand.glob("runs/*/seal.json")}
    assert of_batch == of_loop
    for number in (1, 2, 3):
        mine, theirs = (where / f"{number:04d}.ipynb" for where in (into / "notebooks", by_hand))
        assert not_shown(nbformat.read(mine, as_version=4)) == []
        assert tables(mine) and tables(mine) == tables(theirs)
    assert main(["batch", str(plan), "--into", str(into), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notebooks"] == 0


def test_batch_tells_of_failed_and_damaged_runs_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lab of the reader's own that fails at one of its three points; then one run is damaged,
    and the same command repeats it."""
    plan, into = tmp_path / "plan.yaml", tmp_path / "batch"
    lab = tmp_path / "mine.py"
    before = "    server = serve_file("
    text = EXAMPLE.read_text()
    assert text.count(before) == 1
    raising = "    if settings.file_bytes == 20480:\n        raise ValueError('not 20 KiB')\n"
    lab.write_text(text.replace(before, raising + before))
    plan.write_text("lab: ./mine.py\nONLY: near\nFILE_KIB: [10, 20, 30]\n")
    assert main(["batch", str(plan), "--into", str(into), "--json"]) == 4
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == {"made": 2, "failed": 1}
    (name,) = report["failed_runs"]
    assert "not 20 KiB" in (into / "failures" / f"{name}.log").read_text()
    rows = read_index(into / "index.parquet").frame.set_index("file_kib")
    assert "not 20 KiB" in str(rows.loc[20, "message"]) and rows.loc[10, "status"] == "made"
    (into / "runs" / begun_of(into, "mine")[0] / "run.json").write_bytes(b"{}")
    lab.write_text(text)
    assert main(["batch", str(plan), "--into", str(into), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {"made": 3}


def begun_of(folder: Path, lab: str) -> list[str]:
    """The names of the complete runs of a lab."""
    return sorted(host.parent.name for host in folder.glob(f"runs/{lab}-*/{HOST}"))


def test_two_batches_cannot_share_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second one says which process holds the folder."""
    plan, into = tmp_path / "plan.yaml", tmp_path / "batch"
    plan.write_text(PLAN)
    from labs.batches.batch import owned

    with owned(into):
        assert main(["batch", str(plan), "--into", str(into)]) == 3
    assert f"process {os.getpid()}" in capsys.readouterr().err
    assert not (into / "runs").exists()


def test_shards_in_one_folder_are_the_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three shards of six runs in folders of their own, copied into one: nothing is missing."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "lab: buffers\nONLY: both\nTRANSFER_MIB: 1\nBUFFER_MIB: 1\n"
        "RATE_MBIT: [20, 40]\nDELAY_MS: [2, 5, 10]\n"
    )
    folders = [tmp_path / f"shard{number}" for number in (1, 2, 3)]
    for number, folder in enumerate(folders, 1):
        words = ["--into", str(folder), "--shard", f"{number}/3", "--json"]
        assert main(["batch", str(plan), *words]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == {"made": 2, "missing": 4}
    into = tmp_path / "batch"
    for folder in folders:
        shutil.copytree(folder / "runs", into / "runs", dirs_exist_ok=True)
    assert main(["batch", str(plan), "--into", str(into), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {"made": 6}
    assert begun(into) == {name: at for folder in folders for name, at in begun(folder).items()}
