"""What a notebook holds: the study, its tables, its words, its progress."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

import labs
from labs.catalog import find
from labs.cli.run import as_script, preview
from labs.drive.record.study_file import Planned, write_study
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.read.display.format import notebook_cell
from labs.read.display.rich_output import Table, Text, Words
from labs.read.runs import recorded
from labs.read.runs.archive import pack
from labs.read.runs.run import Run
from labs.studies.study import Study
from tests.real_runs import nagle_run, real, windows_run
from tests.stack_studies import stack_runs

RECORDED = Buffers(
    testbed="recorded", only="both", capture=True, rate_mbit=10, delay_ms=40, transfer_mib=2
)


@pytest.fixture
def study() -> Study:
    runs = (real("unshaped"), real("captured"))
    return Study(Buffers(), runs, Path("runs"), None, True, lab=find("buffers"))


def test_link_in_words(study: Study) -> None:
    assert study.link.to_dict("list") == {
        "Condition": ["unshaped", "both"],
        "Requested": ["not shaped", "10 Mbit/s, 40 ms"],
        "Measured": ["RTT below 0.1 ms", "10.0 Mbit/s, RTT 40.0 ms"],
        "Verdict": ["as asked", "as asked"],
    }


def test_results_have_one_row_per_run(study: Study) -> None:
    table = study.results()
    assert list(table["condition"]) == ["unshaped", "both"]
    assert {
        "goodput_bytes_s",
        "steady_bytes_s",
        "goodput_mib_s",
        "steady_mib_s",
        "rtt_ms",
        "settled",
        "agreement_pct",
        "notes",
        "note_codes",
        "predicted_mib_s",
        "article_mib_s",
        "testbed",
        "kernel",
        "source",
        "key",
        "digest",
        "link",
    } <= set(table)
    assert set(table["source"]) == {"live"}
    assert table["article_mib_s"].dtype == float  # no figure is NaN, not an object
    assert list(table["note_codes"].str.contains("no_rate")) == [True, False]


def test_run_refuses_an_unknown_condition(study: Study) -> None:
    with pytest.raises(
        BadInput, match=r"bth is not in this study \(available: .*\); did you mean both"
    ):
        study.run("bth")


def test_commands_are_text_to_be_pasted(study: Study) -> None:
    commands = study.commands("both")
    assert "tc qdisc add dev eth0 parent 1:10 handle 10: netem delay 40ms" in commands
    assert "\n# on the server\n" in commands
    assert isinstance(commands, Text)
    assert commands._repr_html_().startswith("<pre># on the machine")
    assert repr(commands) == str(commands)


@pytest.mark.parametrize(
    ("run", "program"),
    [
        (real("captured"), "tc"),
        (nagle_run("quickack"), "ip"),
        (windows_run("article-scale0"), "ethtool"),
        (stack_runs()["polling-rules-100-c1"], "nft"),
    ],
)
def test_commands_are_those_of_a_dry_run(run: Run, program: str) -> None:
    lab = find(run.lab)
    asked = run.condition_asked
    alone = dataclasses.replace(lab, all_conditions=lambda p: (asked,), groups=(), _conditions={})
    plan = as_script(preview(alone, lab.Parameters(testbed=run.testbed)))
    commands = Study(lab.Parameters(), (run,), Path("runs"), None, True, lab=lab).commands(
        asked.name
    )
    assert plan.endswith(commands) and f"\n{program} " in commands


def test_describe_has_the_figures_of_the_run(study: Study) -> None:
    assert "**both**: 1.11 MiB/s over the whole file" in study.describe()
    assert "**48.8 KiB** must be in flight" in study.describe("both")
    assert isinstance(study.describe(), Words)


def test_repr_says_what_a_study_is(study: Study) -> None:
    many = dataclasses.replace(study, runs=study.runs * 11)
    assert repr(many).split(" · ")[0].endswith("unshaped, both and 2 more")
    assert repr(study) == (
        "<Study of buffers: unshaped, both · virtual · Linux 6.1.192 · live, in runs>"
    )


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A recorded study of one run, opened."""
    run, runs = real("captured"), tmp_path / "runs"
    shutil.copytree(run.path, runs / run.path.name)
    file = write_study(runs, "buffers", {}, [Planned(run.condition, run.key)])
    recorded.keep(file.path, tmp_path / "data")
    monkeypatch.setattr(recorded, "folder", lambda: tmp_path / "data")
    return labs.study(RECORDED)


def test_study_of_recorded_runs_makes_nothing(
    kept: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (kept.live, kept.conditions) == (False, ("both",))
    assert list(kept.results()["source"]) == ["recorded"]
    assert "recorded" in str(labs.charts.buffers.timeline(kept.run("both")).layout.annotations)
    assert capsys.readouterr() == ("", "")


def test_study_reads_a_packed_file_in_place_of_a_folder(tmp_path: Path) -> None:
    run = real("captured")
    shutil.copytree(run.path, tmp_path / "runs" / run.path.name)
    pack(tmp_path / "runs", tmp_path / "shared.tar.xz")
    shared = dataclasses.replace(RECORDED, testbed="virtual", runs=str(tmp_path / "shared.tar.xz"))
    study = labs.study(shared)
    assert (study.live, [each.key for each in study.runs]) == (False, [run.key])
    with pytest.raises(BadInput, match=r"rate_mbit = 100 \(recorded: 10\)"):
        labs.study(dataclasses.replace(shared, rate_mbit=100))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "shared.tar.xz"]


def test_study_creates_no_folder_with_the_name_of_a_packed_file(tmp_path: Path) -> None:
    missing = tmp_path / "shared.tar.xz"
    with pytest.raises(BadInput, match="there is no packed file"):
        labs.study(dataclasses.replace(RECORDED, testbed="virtual", runs=str(missing)))
    assert not missing.exists()


@pytest.mark.usefixtures("kept")
def test_study_refuses_recorded_runs_with_another_link() -> None:
    with pytest.raises(BadInput, match=r"rate_mbit = 100 \(recorded: 10\)"):
        labs.study(dataclasses.replace(RECORDED, rate_mbit=100))


@pytest.mark.usefixtures("kept")
def test_study_of_several_kernels_has_one_study_each() -> None:
    study = labs.study(dataclasses.replace(RECORDED, kernel="6.12, 6.1"))
    assert [of_kernel.conditions for of_kernel in study.kernels] == [("both",), ()]
    assert [of_kernel.parameters.kernel for of_kernel in study.kernels] == ["6.1", "6.12"]
    assert "kernel = 6.12 (recorded: 6.1.192" in study.kernels[1].lacks.lower()
    assert study.lacks == ""


@pytest.mark.usefixtures("kept")
def test_study_of_several_kernels_refuses_if_none_has_runs() -> None:
    with pytest.raises(BadInput, match=r"(?i)kernel = 5\.10 \(recorded: 6\.1\.192"):
        labs.study(dataclasses.replace(RECORDED, kernel="5.10,7.2"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (13.3850069, "13.39"),
        (1073741824, "1,073,741,824"),
        (True, "yes"),
        (None, ""),
        (float("nan"), ""),
        (0.0000229, "<0.001"),
        (0.0, "0"),
        ("a & b", "a & b"),
    ],
)
def test_notebook_cell_in_words(value: object, words: str) -> None:
    assert notebook_cell(value) == words


def test_table_shows_whole_cells_and_escapes_them() -> None:
    html = Table({"what": ["<b>" + "x" * 200], "how many": [3.14159]})._repr_html_()
    assert "&lt;b&gt;" + "x" * 200 in html
    assert ">3.142</td>" in html
    assert isinstance(Table({"a": [1]})[["a"]], Table)


def test_testbeds_have_a_row_each() -> None:
    table = labs.testbeds(Buffers())
    assert list(table["Testbed"]) == ["virtual", "namespaces", "vagrant", "recorded"]
    assert set(table["Runs here"]) <= {"yes", "no"}
    assert all(
        why or here == "yes"
        for why, here in zip(table["Reason if not"], table["Runs here"], strict=True)
    )


def test_on_a_kernel_that_is_missing_has_no_runs_and_says_why(kept: Study) -> None:
    other = kept.on("6.12", "both")
    assert other.runs == () and other.results().empty
    assert other.lacks and "\n" not in other.lacks
    assert repr(other) == f"<Study of buffers without runs: {other.lacks}>"


def test_on_its_own_kernel_has_the_conditions_that_match(kept: Study) -> None:
    assert kept.on("6.1").conditions == kept.on("6.1", "bo*").conditions == ("both",)
    assert kept.lacks == ""
