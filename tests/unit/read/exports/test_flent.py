"""Files for Flent, opened by Debian's Flent."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from labs.experiments.buffers.results import Results
from labs.read.exports.flent import ENDING, STEP_S, flent_file
from labs.read.readings.goodput import download
from labs.read.runs.run import Run
from tests.real_runs import known, nagle_run, real, real_study, sweeps_study, windows_run, with_file

MIB_S_IN_MBIT = 8 * 1.048576
flent = pytest.mark.program("flent")


def exported(run: Run, folder: Path) -> Path:
    content = flent_file(run)
    assert content is not None
    path = folder / f"{run.name}{ENDING}"
    path.write_bytes(content)
    return path


def told(path: Path, form: str) -> str:
    """What Flent writes about a file in one of its formats."""
    out = path.with_suffix(f".{form}")
    argv = ("flent", "-f", form, "-i", str(path), "-o", str(out))
    subprocess.run(argv, capture_output=True, timeout=60, check=True)
    return out.read_text()


@flent
def test_flent_file_has_the_metadata_of_the_run(tmp_path: Path) -> None:
    run = real("captured")
    (said,) = json.loads(told(exported(run, tmp_path), "metadata"))
    assert (said["NAME"], said["HOST"], said["LOCAL_HOST"]) == ("tcp_1down", "server", "client")
    assert said["KERNEL_RELEASE"] == run.kernel.release
    assert said["TEST_PARAMETERS"]["key"] == run.key
    assert said["TEST_PARAMETERS"]["link_rate_mbit"] == str(run.link.asked.rate_mbit)
    assert said["SYSCTLS"] == run.sysctls["client"]["after"]
    assert said["TITLE"].startswith(run.condition)


@flent
def test_flent_file_has_the_goodput_of_each_step(tmp_path: Path) -> None:
    """In steps of 100 ms, because the RTT is shorter; in seconds and Mbit/s."""
    run = real_study("6.1").run("default")
    heads, *rows = csv.reader(StringIO(told(exported(run, tmp_path), "csv")))
    assert heads == ["tcp_1down", "TCP download"]
    seconds, bytes_s = download(run).goodput_over_time(STEP_S)
    assert [float(x) for x, _ in rows] == pytest.approx(seconds)
    assert [float(y) for _, y in rows] == pytest.approx([one * 8 / 1e6 for one in bytes_s])
    median = sorted(float(y) for _, y in rows)[len(rows) // 2]
    assert median == pytest.approx(known(Results(run).steady_mib_s) * MIB_S_IN_MBIT, rel=0.02)


@flent
def test_flent_plots_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With this environment's matplotlib, because Debian's brings 54 packages."""
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    program = Path(str(shutil.which("flent"))).resolve()
    picture = tmp_path / "plot.svg"
    argv = (sys.executable, str(program), "-p", "totals", "-f", "plot", "-o", str(picture))
    path = exported(real("captured"), tmp_path)
    subprocess.run((*argv, "-i", str(path)), capture_output=True, timeout=120, check=True)
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("run", "test"),
    [
        (nagle_run("ask"), "tcp_1down"),
        (sweeps_study().run("both-16k"), "tcp_1down"),
        (windows_run("article-1m"), "tcp_1up"),
    ],
    ids=lambda one: one.lab if isinstance(one, Run) else one,
)
def test_flent_file_of_runs_without_a_download_is_made_from_samples(run: Run, test: str) -> None:
    content = flent_file(run)
    assert content is not None
    said = json.loads(gzip.decompress(content))
    assert said["metadata"]["NAME"] == test
    (series,) = said["results"].values()
    assert len(series) == len(said["x_values"]) and max(series) > 0


def test_flent_file_gives_the_same_bytes_again() -> None:
    assert flent_file(real("captured")) == flent_file(real("captured"))


def test_flent_file_of_a_run_without_a_transfer_is_none() -> None:
    assert flent_file(real_study("6.1").run("setsockopt")) is None


def test_flent_file_of_a_transfer_that_takes_no_time_is_none(tmp_path: Path) -> None:
    run = real("captured")
    said = run.fetch() or {}
    text = json.dumps({**said, "end_ns": said["first_byte_ns"], "timeline": []})
    name = "client/fetch.json"
    assert flent_file(with_file(run, tmp_path, name, run.text(name), text)) is None
