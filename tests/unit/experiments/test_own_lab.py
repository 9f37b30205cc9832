"""A lab in a file of the reader's own is served by shared code as the package's labs are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from labs import catalog
from labs.cli.__main__ import main
from labs.cli.new import source
from labs.cli.run_report import as_json, describe
from labs.drive.record.run_folder import Staging, run_name
from labs.drive.record.study_file import Planned, write_study
from labs.read.lab import Lab
from labs.read.runs.run import Run, open_run
from labs.read.stats.repetitions import repeated
from labs.read.stats.testbed_comparison import DISAGREE, compare_testbeds
from labs.studies.study import Study
from tests.made_verdicts import verdicts
from tests.repeated_runs import UNSEALED, repetition, repetitions
from tests.run_folders import inputs, make_run

# A made run has no `before_ns`; its first moment is the end of the handshake.
CHANGES = (
    ('fetch["before_ns"]', 'fetch["connect_ns"]'),
    ("import column\n", "import Margin, column\n"),
    (
        'column("time from connect to the last byte", unit="ms", headline=True)',
        'column("time", unit="ms", predicted_by="slow_ms", headline=True)',
    ),
    (
        """    @column("the same time in round trips of the link")
    def round_trips(self) -> float:
        return self.took_ms / self.run.link.measured.rtt_ms
""",
        """    @column("size of the body", unit="bytes")
    def bytes(self) -> int:
        return self.fetch["bytes"]

    @column("complete, or ended by the limit")
    def ended(self) -> str:
        return self.run.ended

    @column("what a kernel that is twice as slow takes", unit="ms")
    def slow_ms(self) -> float:
        return 23_000.0 if str(self.run.kernel.release).startswith("6.12.") else 11_500.0
""",
    ),
)
LEDGER = """
[article]
number = 9
title = "How long a download takes"
lab = "mine"
kernels = "6.1"
[article.parameters]

[[claim]]
id = "A9.1"
statement = "The body has 1 GiB."
expected = 1073741824
unit = "bytes"
tolerance_pct = 0.0
tolerance_reason = "bytes are counted"
conditions = ["far"]
column = "bytes"

[[claim]]
id = "A9.2"
statement = "It takes 10 s."
expected = 10000.0
unit = "ms"
tolerance_pct = 5.0
tolerance_reason = "one run"
conditions = ["far"]
column = "took_ms"
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """`labs new mine` with a few columns more, and the claims beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "_of_files", {})
    text = source("mine")
    for old, new in CHANGES:
        assert old in text
        text = text.replace(old, new)
    Path("mine.py").write_text(text + '\n\nMARGIN = Margin(0.9, 1.1, "one download each")\n')
    Path("mine.toml").write_text(LEDGER)
    return catalog.find("./mine.py")


def made(lab: Lab) -> Run:
    """A run of the condition `far`, with the settings that the lab gives it; it takes 11.5 s."""
    (far,) = lab.conditions(lab.Parameters(only="far"))
    return open_run(make_run(Path("runs"), inputs("far", lab="mine", condition=far.as_json())))


def test_as_text_prints_the_results(lab: Lab) -> None:
    """Columns that other labs have too, and hide."""
    study = Study(lab.Parameters(), (made(lab),), Path("runs"), None, True, lab=lab)
    report = as_json(lab, study.parameters, study)
    head, row = (line.split() for line in describe(lab, report).splitlines()[:2])
    assert head[:5] == ["condition", "took_ms", "bytes", "ended", "slow_ms"]
    assert (row[0], row[2], row[3]) == ("far", str(2**30), "complete")
    assert lab.headline(study.runs[0]) == ("took_ms", 11_500.0)


def test_results_that_fail_are_told_with_their_line(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reader's own mistake, in one line; the run is kept."""
    run = made(lab)
    text = Path("mine.py").read_text()
    assert text.count('fetch["bytes"]') == 1
    Path("mine.py").write_text(text.replace('fetch["bytes"]', 'fetch["octets"]'))
    number = text[: text.index('fetch["bytes"]')].count("\n") + 1
    catalog._of_files.clear()
    write_study(Path("runs"), "mine", {"size": "small"}, [Planned("far", run.key)])
    out = ("runs", "export", "runs", "--csv", "flat.csv", "--lab", "./mine.py")
    assert main(out) == 2
    error = capsys.readouterr().err
    assert f"mine.py:{number}: results of far raises KeyError: 'octets'. Fix" in error
    assert error.count("\n") == 1


def test_verdicts_by_column(lab: Lab) -> None:
    size, time = verdicts(lab, [made(lab)])
    assert (size.verdict, size.measured) == ("holds", 2**30)
    assert (time.verdict, time.predicted) == ("differs", 11_500.0)
    assert time.factor == pytest.approx(1.15)


def test_claims_command_reads_the_ledger_beside_the_file(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(lab)
    write_study(Path("runs"), "mine", {"size": "small"}, [Planned("far", run.key)])
    assert main(["claims", "./mine.py", "--json"]) == 0
    verdicts = json.loads(capsys.readouterr().out)
    assert [verdict["verdict"] for verdict in verdicts] == ["holds", "differs"]
    Path("mine.toml").unlink()
    catalog._of_files.clear()
    assert main(["claims", "./mine.py"]) == 2
    assert "Write its claims to mine.toml" in capsys.readouterr().err


def with_parameter(name: str, value: object) -> str:
    """The ledger, with a parameter on which both claims depend."""
    ledger = LEDGER.replace("[article.parameters]\n", f"[article.parameters]\n{name} = {value}\n")
    return ledger.replace("conditions =", f'parameters = ["{name}"]\nconditions =')


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("delay_ms", 100, ["holds", "differs"]),
        ("delay_ms", 20, ["not judged"] * 2),
        ("file_bytes", 102_400, ["holds", "differs"]),
        ("file_bytes", 204_800, ["not judged"] * 2),
    ],
)
def test_claims_depend_on_settings_and_the_link(
    lab: Lab, name: str, value: object, words: list[str]
) -> None:
    Path("mine.toml").write_text(with_parameter(name, value))
    assert [verdict.verdict for verdict in verdicts(lab, [made(lab)])] == words


def test_claims_refuse_a_parameter_that_no_run_says(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """`file_kib` is turned into the setting `file_bytes`; the file imports `parameter`, with which
    it declares it."""
    run = made(lab)
    write_study(Path("runs"), "mine", {"size": "small"}, [Planned("far", run.key)])
    Path("mine.toml").write_text(with_parameter("file_kib", 100))
    assert main(["claims", "./mine.py"]) == 2
    error = capsys.readouterr().err
    assert "mine.toml: A9.1: file_kib " in error and error.count("\n") == 1
    assert {"file_bytes,", "delay_ms,"} <= set(error.split())


@pytest.mark.parametrize(
    ("file_kib", "words"), [(100, ["holds", "differs"]), (200, ["not judged"] * 2)]
)
def test_claims_depend_on_what_the_lab_s_own_function_gives(
    lab: Lab, file_kib: int, words: list[str]
) -> None:
    with Path("mine.py").open("a") as file:
        file.write("\n\ndef parameter(run, name):\n    return run.fetch()['bytes'] / 2**20 - 924\n")
    Path("mine.toml").write_text(with_parameter("file_kib", file_kib))
    changed = catalog.find("./mine.py")
    assert [verdict.verdict for verdict in verdicts(changed, [made(changed)])] == words


def test_compare_testbeds_gives_the_kernel_as_the_reason(lab: Lab) -> None:
    run = made(lab)
    others = repetitions(Path("machines"), run, [0.5] * 5, release="6.12.9")
    (comparison,) = compare_testbeds(lab, [run], others)
    assert (comparison.verdict, comparison.because.split(":")[0]) == (DISAGREE, "kernel")
    assert comparison.ratio is not None and comparison.ratio.middle == pytest.approx(2, rel=0.05)


def test_repeated_leaves_out_a_run_with_a_starved_sampler(lab: Lab) -> None:
    run = made(lab)
    for number, period_ms in enumerate((100.4, 150.0), start=1):
        sampled = with_sampler(Path("sampled") / str(number), run, period_ms)
        repetition(Path("machines"), sampled, number)
    (condition,) = repeated(lab, map(open_run, sorted(Path("machines").iterdir())))
    assert (len(condition.runs), condition.disturbed) == (2, 1)
    assert "sampled every 150 ms, not 100" in condition.why[0]


def with_sampler(runs: Path, run: Run, period_ms: float) -> Run:
    """A copy of the run with what its sampler on the client wrote of itself."""
    sampled = json.dumps({"samples": 115, "mean_period_ms": period_ms})
    with Staging(runs, run_name(run.lab, run.condition, run.key)) as staging:
        shutil.copytree(run.path, staging.folder, dirs_exist_ok=True, ignore=UNSEALED)
        staging.write("client/sampler.json", sampled.encode())
        return open_run(staging.seal({}))
