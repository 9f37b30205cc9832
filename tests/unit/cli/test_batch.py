"""`labs batch`: what it prints beforehand and what it refuses; nothing is performed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from labs.catalog import find
from labs.cli.__main__ import main
from labs.drive.kernel.store import kernels

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "00-start-here.ipynb"
PLAN = """\
lab: buffers
ONLY: default,both,near
RATE_MBIT: [50, 100, 200]
DELAY_MS: {from: 10, to: 40, steps: 2}
KERNEL: ["6.1", "9.9"]
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plan of twelve points, of which one kernel does not exist; in a folder without runs."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN)
    return file


def dry_run(plan: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["batch", str(plan), "--dry-run", "--json", *words]) == 0
    preview: dict[str, object] = json.loads(capsys.readouterr().out)
    return preview


def test_dry_run_counts_points_distinct_runs_and_impossible_points(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`near` has the lab's own delay and only the rate, so its three runs are shared by two points
    each: 6 x 2 + 3 runs on 6.1; the six points of the kernel that does not exist have none."""
    if not any(kernel.version.startswith("6.1.") for kernel in kernels()):
        pytest.skip("Linux 6.1 is not built")
    preview = dry_run(plan, capsys)
    assert (preview["points"], preview["runs"], preview["existing"]) == (12, 15, 0)
    assert preview["axes"] == {
        "RATE_MBIT": [50.0, 100.0, 200.0],
        "DELAY_MS": [10.0, 40.0],
        "KERNEL": ["6.1", "9.9"],
    }
    assert list(preview["impossible"].values()) == [6]  # type: ignore[attr-defined]
    assert preview["estimated_runs"] == 0 and preview["into"] == "batches/plan"
    assert not Path("batches").exists()


def test_dry_run_estimates_from_earlier_runs_with_the_same_settings(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two earlier runs of `both` took 2 and 4 s, so six take 18 s one at a time; that of another
    transfer size says nothing about them. Of a third size all three are a rough guide."""
    if not any(kernel.version.startswith("6.1.") for kernel in kernels()):
        pytest.skip("Linux 6.1 is not built")
    plan.write_text(PLAN.replace("default,both,near", "both").replace(', "9.9"', ""))
    lab = find("buffers")
    (both,) = lab.conditions(lab.Parameters(only="both"))
    other = {**both.settings, "transfer_bytes": 1}
    settings = [both.settings, both.settings, other]
    sizes = []
    for number, (real_s, setting) in enumerate(zip((2.0, 4.0, 99.0), settings, strict=True)):
        folder = Path("runs") / f"buffers-both-{number:012x}"
        folder.mkdir(parents=True)
        condition = {"name": "both", "settings": dict(setting)}
        files = {
            "run.json": {"inputs": {"condition": condition}},
            "seal.json": {},
            "host.json": {"real_s": real_s},
        }
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content))
        sizes.append(sum(file.stat().st_size for file in folder.iterdir()))
    preview = dry_run(plan, capsys, "--jobs", "1")
    assert (preview["runs"], preview["estimated_runs"]) == (6, 6)
    assert (preview["seconds"], preview["estimated_from_runs"]) == (18.0, 2)
    assert preview["bytes"] == 6 * (sizes[0] + sizes[1]) / 2 and preview["estimated_roughly"] == 0
    plan.write_text(plan.read_text() + "TRANSFER_MIB: [1, 1024]\n")
    preview = dry_run(plan, capsys, "--jobs", "1")
    assert (preview["runs"], preview["estimated_runs"], preview["estimated_roughly"]) == (12, 12, 6)
    assert preview["estimated_from_runs"] == 3  # the median of 2, 4 and 99 s for those of 1 MiB
    assert preview["seconds"] == 18.0 + 6 * 4.0


def test_dry_run_of_a_shard_and_of_excluded_points(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the fifteen runs, rounded up; with one rate excluded ten are left."""
    if not any(kernel.version.startswith("6.1.") for kernel in kernels()):
        pytest.skip("Linux 6.1 is not built")
    assert dry_run(plan, capsys, "--shard", "1/2")["runs"] == 8
    plan.write_text(PLAN + "exclude: [{RATE_MBIT: 50}]\n")
    preview = dry_run(plan, capsys)
    assert (preview["points"], preview["excluded"], preview["runs"]) == (8, 4, 10)


@pytest.mark.parametrize(
    ("text", "words", "code", "named"),
    [
        ("lab: buffers\nRATE_MBTI: [1]\n", (), 2, "RATE_MBIT"),
        ("lab: buffers\nRATE_MBIT: []\n", (), 2, "line 2"),
        ("lab: buffers\nONLY: defualt\n", (), 2, "default"),
        ("lab: buffers\nRUNS: x\n", (), 2, "--into"),
        ("lab: buffers\nTESTBED: recorded\n", (), 2, "namespaces"),
        ("lab: buffers\nKERNEL: '9.9'\n", (), 3, "9.9"),
        ("RATE_MBIT: 1\n", (), 2, "lab: buffers"),
        ("lab: buffers\n", ("--jobs", "0"), 2, "--jobs 0"),
        ("lab: buffers\n", ("--shard", "3/2"), 2, "3/2"),
        ("lab: buffers\n", ("--shard", "1/2", "--cluster", "local:2"), 2, "--cluster"),
        ("lab: buffers\n", ("--shard", "array"), 2, "I/N"),
        ("lab: buffers\n", ("--testbed", "vagrant"), 2, "--testbed"),
        ("lab: nagle\nTESTBED: namespaces\n", ("--shard", "1/2"), 2, "namespaces"),
        ("lab: buffers\nSEED: {from: 1, to: 50000, step: 1}\n", (), 2, "200,000"),
        ("lab: buffers\nONLY: both\n", ("--scheduler", "host:1"), 2, "tcp://HOST:PORT"),
    ],
)
def test_main_refuses_in_one_line_and_performs_nothing(
    text: str,
    words: tuple[str, ...],
    code: int,
    named: str,
    plan: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan.write_text(text)
    assert main(["batch", str(plan), *words]) == code
    printed = capsys.readouterr()
    assert printed.out == "" and named in printed.err
    assert len([line for line in printed.err.splitlines() if line.startswith("labs: ")]) == 1
    assert not list(Path().glob("batches/*/runs/*"))


def test_a_file_of_papermill_is_a_plan_of_one_point(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy of the notebook, because the clone may be read-only."""
    shutil.copy(NOTEBOOK, "mine.ipynb")
    plan.write_text("RATE_MBIT: 100\nDELAY_MS: 40\n")
    preview = dry_run(plan, capsys, "--of", "mine.ipynb")
    assert (preview["points"], preview["of"]) == (1, "mine.ipynb")
