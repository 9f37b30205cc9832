"""What is verified without performing a run: checksums, verdicts, and who is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labs.catalog import find
from labs.cli.command import prepare
from labs.errors import BadInput, Damaged
from labs.publish import bundle
from labs.publish.crate import VERDICTS
from labs.read.answers import COMPUTE, kept
from labs.read.runs.recorded import keep
from labs.read.runs.run import Run, open_run
from labs.read.stats.repetitions import Repeated
from labs.verify import real_time
from labs.verify.recorded_verdicts import verdicts_in
from labs.verify.verified import IN_PART, INTACT, NOT_ALL_COMPARED
from labs.verify.verify import Draw, verify
from tests.hostile_bundles import files_of, made, rewritten, summed, zipped
from tests.run_folders import inputs, make_run, reseal

RECORDED = Path(__file__).parents[3] / "data"


def run(*words: object) -> int:
    return prepare("verify", list(map(str, words))).run()


def in_real_time(folder: Path) -> Path:
    return make_run(folder, inputs(testbed="namespaces", kernel=None, repetition=1))


def with_verdicts(good: Path, out: Path, verdicts: object) -> Path:
    """A bundle with other verdicts."""
    return rewritten(good, out, {**files_of(good), VERDICTS: json.dumps(verdicts).encode()})


def test_runs_in_real_time_are_intact_and_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_real_time(tmp_path / "runs")
    assert run(tmp_path / "runs", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["grade"] == INTACT
    assert report["runs"]["real_time"] == report["runs"]["checked"] == 1
    assert report["runs"]["repeated"] == 0


def test_recorded_data_are_held_to_their_checksums(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    keep(in_real_time(tmp_path / "runs").parent, data)
    assert run(data) == 0
    packed = data / "buffers.tar.xz"
    packed.write_bytes(packed.read_bytes() + b"\0\0\0\0")
    capsys.readouterr()
    with pytest.raises(Damaged):
        run(data, "--json")
    assert json.loads(capsys.readouterr().out)["grade"] == "damaged"


def test_one_flipped_byte_is_damaged(tmp_path: Path) -> None:
    folder = in_real_time(tmp_path / "runs")
    config = folder / "server/nginx.conf"
    config.write_bytes(bytes([config.read_bytes()[0] ^ 1]) + config.read_bytes()[1:])
    with pytest.raises(Damaged, match=r"server/nginx\.conf was changed"):
        run(tmp_path / "runs")


def test_a_run_does_not_load_a_lab_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may name any lab, such as a file of the current folder."""
    (tmp_path / "evil.py").write_text("open('loaded', 'w')")
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs", {**inputs(), "lab": "evil.py"})
    verified = verify(tmp_path / "runs")
    assert (verified.grade, len(verified.foreign), verified.repeated) == (INTACT, 1, [])
    assert not (tmp_path / "loaded").exists()
    assert [objection.part for objection in verified.not_compared] == [
        "1 run of labs not of this package"
    ]


def test_verdicts_that_changed_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = made(tmp_path)
    verdicts = json.loads(files_of(good)[VERDICTS])
    claim = next(verdict for verdict in verdicts["articles"][0]["verdicts"])
    claim["verdict"] = "<b>forged</b>"
    with_verdicts(good, tmp_path / "x.zip", verdicts)
    monkeypatch.setattr("labs.verify.verify.repeat", lambda runs, into, jobs: ([], []))
    verified = verify(tmp_path / "x.zip")
    assert verified.grade == "moved beyond" and verified.verdicts is not None
    (moved,) = verified.verdicts.moved
    assert (moved.id, moved.verdicts[0]) == (claim["id"], "<b>forged</b>")
    assert any(claim["id"] in line and "<b>forged</b>" in line for line in verified.lines())


def test_figures_that_changed_under_the_same_verdict_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = made(tmp_path)
    verdicts = json.loads(files_of(good)[VERDICTS])
    verdicts["articles"][0]["verdicts"][0]["measured"] = 123.5
    with_verdicts(good, tmp_path / "x.zip", verdicts)
    monkeypatch.setattr("labs.verify.verify.repeat", lambda runs, into, jobs: ([], []))
    assert verify(tmp_path / "x.zip").grade == "moved within tolerance"


def test_verdicts_of_the_wrong_type_are_damaged(tmp_path: Path) -> None:
    files = files_of(made(tmp_path))
    for verdicts in ({"articles": 1}, {"articles": [{"article": 1, "verdicts": [{"id": 7}]}]}):
        changed = {**files, VERDICTS: json.dumps(verdicts).encode()}
        (tmp_path / "x.zip").write_bytes(zipped(summed(changed)))
        with pytest.raises(Damaged):
            verdicts_in(tmp_path / "x.zip")


def again(*values: float) -> real_time.Again:
    """New values of a condition whose recorded median is 10, from 9 to 11; the margin of `buffers`
    is 0.9 to 1.1."""
    lab = find("buffers")
    run = cast(Run, SimpleNamespace(lab="buffers", condition="x", testbed="namespaces"))
    recorded = Repeated(lab, "x", "goodput_mib_s", (run,), (run,), (9.0, 9.5, 10.0, 10.5, 11.0))
    return real_time.Again(recorded, values)


def test_a_new_median_is_covered_within_the_margin_or_beyond() -> None:
    assert again(10.9, 10.9, 20).grade == "covered"
    assert again(8.99, 8.99, 10).grade == "moved beyond"  # 0.899 of the recorded median
    wide = again(9.4)
    narrow = replace(wide, recorded=replace(wide.recorded, values=(9.9, 10, 10, 10, 10.1)))
    assert narrow.grade == "moved within tolerance"


def test_an_interval_of_five_covers_the_median_of_five_more_in_five_of_six_cases() -> None:
    """What docs/publishing.md says. All orders of five recorded and five new values are equally
    likely; the interval of five values is from the least to the largest."""
    orders = list(combinations(range(10), 5))
    covered = sum(min(old) < sorted(set(range(10)) - set(old))[2] < max(old) for old in orders)
    assert covered / len(orders) == pytest.approx(5 / 6)


def test_an_interval_that_the_runs_do_not_give_is_told(tmp_path: Path) -> None:
    out = tmp_path / "x.zip"
    bundle.write(out, [], [RECORDED / "nagle-namespaces.tar.xz"], tell=lambda line: None)
    verdicts = json.loads(files_of(out)[VERDICTS])
    assert [interval["condition"] for interval in verdicts["intervals"]] == ["off", "on"]
    verified = verify(out)
    assert (verified.grade, verified.exit_code) == (f"{INTACT} {IN_PART}", NOT_ALL_COMPARED)
    verdicts["intervals"][0]["high"] += 1
    with_verdicts(out, out, verdicts)
    verified = verify(out)
    assert verified.grade == "moved beyond" and len(verified.other_intervals) == 1


def test_a_testbed_that_is_not_here_is_told_in_one_line(tmp_path: Path) -> None:
    """There are no machines in the folder of the tests."""
    verified = verify(RECORDED / "stack-vm.tar.xz", Draw(real_time=2))
    assert verified.again == [] and len(verified.lacking) == 10 and verified.grade == "not repeated"
    assert [objection.part for objection in verified.not_compared][:1] == ["10 runs"]


def test_kernel_without_a_run_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "runs")
    with pytest.raises(BadInput, match=r"on Linux 4\.4\. Available: 6\.1"):
        run(tmp_path / "runs", "--kernel", "4.4")


def test_main_computes_what_the_cache_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed answer in the cache is not believed, here or by the notebooks that are executed."""
    question, digest = '["nagle", "mean"]', "0" * 32
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert kept(question, lambda: "3.21", digest) == "3.21"
    assert kept(question, lambda: "40.061", digest) == "3.21"
    seen: list[str | None] = []

    def answered(*_: object, **__: object) -> Any:
        seen.append(kept(question, lambda: "40.061", digest))
        seen.append(os.environ.get(COMPUTE))
        return verify(tmp_path / "runs")

    in_real_time(tmp_path / "runs")
    monkeypatch.setattr("labs.verify.verify.verify", answered)
    assert run(tmp_path / "runs") == 0
    assert seen == ["40.061", "1"] and COMPUTE not in os.environ
    assert kept(question, lambda: "40.061", digest) == "3.21"


def test_execute_needs_a_notebook(tmp_path: Path) -> None:
    in_real_time(tmp_path / "runs")
    with pytest.raises(BadInput, match="no notebooks"):
        run(tmp_path / "runs", "--execute")


@pytest.mark.parametrize("words", [["--sample", "0"], ["--jobs", "-1"], ["nothing-here"]])
def test_main_refuses(tmp_path: Path, words: list[str]) -> None:
    in_real_time(tmp_path / "runs")
    with pytest.raises(BadInput):
        run(*(words if words[0] == "nothing-here" else [tmp_path / "runs", *words]))


def test_memory_that_no_lab_allows_is_not_tried(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", inputs(memory_mib=1 << 30))
    verified = verify(tmp_path / "runs")
    assert verified.grade == "not repeated" and "memory_mib" in verified.lacking[0].why


def test_a_run_sealed_again_with_another_key_is_damaged(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "runs")
    record = json.loads((folder / "run.json").read_text())
    record["inputs"]["seed"] = 7
    (folder / "run.json").write_text(json.dumps(record))
    reseal(folder)
    with pytest.raises(Damaged, match="its key"):
        open_run(folder)
    with pytest.raises(Damaged, match="its key"):
        verify(tmp_path / "runs")


def test_verifying_needs_none_of_the_extras() -> None:
    """A reader installs the package alone: no papermill, nbformat, nbconvert."""
    extras = ("papermill", "nbformat", "nbconvert", "ipykernel", "rocrate", "bleach", "pyarrow")
    code = f"import sys; sys.modules.update(dict.fromkeys({extras})); import labs.verify.verify"
    subprocess.run((sys.executable, "-c", code), check=True, timeout=120)
