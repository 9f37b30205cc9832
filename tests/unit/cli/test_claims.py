"""`labs claims`: the verdicts, for a reader and for a program, from whatever runs there are."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labs.catalog import find, with_ledgers
from labs.cli.__main__ import main
from labs.drive.record.study_file import Planned, write_study
from labs.experiments.stack.claims import record
from labs.launch.wanted import Wanted
from labs.publish import bundle
from labs.read.claims.ledger import Article, read
from labs.read.claims.verdict import HARDWARE, HOLDS, MORE, MOST_WORDS, NOT_JUDGED, WRONG
from labs.read.lab import Lab
from labs.read.runs import recorded
from labs.read.runs.archive import unpacked
from labs.read.runs.run import open_run
from tests.run_folders import inputs, make_run


def article_of(lab: Lab) -> Article:
    """The article that a lab is about."""
    assert lab.ledger is not None
    return read(lab.ledger)


RUNS = Path(__file__).parents[2] / "fixtures" / "claims" / "6.1.tar.xz"
ARTICLES = "1, 2, 3, 4, 5"
FIELDS = {
    "id",
    "statement",
    "expected",
    "unit",
    "tolerance_pct",
    "tolerance_reason",
    "predicted",
    "measured",
    "verdict",
    "factor",
    "reason",
    "conditions",
    "link",
    "figures",
    "judged",
    "chance",
    "draws",
    "witness",
    "runs",
    "because",
    "evidence",
    "note",
    "parts",
    "witnesses",
}
TABLE = Path(__file__).parents[3] / "docs" / "claims.json"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["claims", *words]) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    verdicts = json.loads(told(capsys, *words, "--json"))
    assert isinstance(verdicts, list)
    return {entry["id"]: entry for entry in verdicts}


def study(folder: Path, *conditions: str, **parameters: object) -> Path:
    """A study of these conditions in a folder of runs of its own; returns the study's file."""
    chosen = [
        run
        for run in sorted(unpacked(RUNS).glob("buffers-*"))
        if open_run(run).condition in conditions
    ]
    for run in chosen:
        shutil.copytree(run, folder / run.name)
    return write_study(
        folder,
        "buffers",
        {"size": "small", **parameters},
        [Planned(run.condition, run.key) for run in map(open_run, chosen)],
    ).path


HOSTS = ("server", "client")


def trial(folder: Path, condition: str, **parameters: float) -> None:
    """A study with another link, as a reader's experiment leaves it."""
    every = map(open_run, sorted(unpacked(RUNS).glob("buffers-*")))
    asked = next(run.inputs for run in every if run.condition == condition)
    sizes = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 4194304"}
    sysctls = {host: {**sizes, **asked["condition"]["sysctls"].get(host, {})} for host in HOSTS}
    link = {**asked["condition"]["link"], **parameters}
    changed = {**asked["condition"], "link": link, "sysctls": sysctls}
    made = make_run(folder, {**asked, "condition": changed})
    run = open_run(made)
    write_study(folder, "buffers", {"size": "small", **parameters}, [Planned(condition, run.key)])


def test_main_as_json_has_every_claim_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = as_json(capsys, "--from", str(RUNS), "--article", "1")
    assert list(verdicts) == [claim.id for claim in article_of(find("buffers")).claims]
    for entry in verdicts.values():
        assert set(entry) == FIELDS
        assert entry["reason"]
    assert verdicts["A1.6"]["verdict"] == "holds"
    assert verdicts["A1.10"]["verdict"] == "right number, wrong reason"
    assert verdicts["A1.6"]["witness"] == {"testbed": "virtual", "kernel": "6.1.192"}


def test_main_against_the_committed_table(capsys: pytest.CaptureFixture[str]) -> None:
    """No verdict on the recorded runs changes unnoticed. After a wanted change:

    cd docs && labs claims --json > new.json && mv new.json claims.json
    """
    count = TABLE.read_text("utf-8").count('\n{"id"')
    assert count > 100
    last = told(capsys, "--against", str(TABLE)).splitlines()[-1]
    assert last.startswith(f"0 of {count} verdicts")


def test_main_against_earlier_verdicts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("--from", str(RUNS), "--article", "1")
    old = list(as_json(capsys, *words).values())
    (ours,) = [verdict for verdict in old if verdict["id"] == "A1.6"]
    ours["verdict"] = ours["witnesses"][0]["verdict"] = "differs"
    ours["witnesses"][0]["runs"]["conditions"]["default"] = "0" * 12
    earlier = tmp_path / "old.json"
    earlier.write_text(json.dumps(old))
    assert main(["claims", *words, "--against", str(earlier), "--json"]) == 5
    report = json.loads(capsys.readouterr().out)
    assert [verdict["id"] for verdict in report["moved"]] == ["A1.6"]
    assert report["compared"] == len(old) and report["other_figures"] == []
    assert report["moved"][0]["witnesses"][0]["runs"] == ["default"]
    assert report["moved"][0]["witnesses"][0]["inputs"] == []
    assert main(["claims", *words, "--id", "A1.7", "--against", str(earlier)]) == 0


def test_main_against_a_bundle_compares_the_articles_that_it_judges(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "old.zip"
    bundle.write(out, [], [RUNS], tell=lambda line: None)
    assert main(["claims", "--from", str(out), "--against", str(out)]) == 0
    assert capsys.readouterr().out.startswith("0 of ")
    assert main(["claims", "--article", "3", "--against", str(out)]) == 2
    assert "no verdict on article 3" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["", ".zip", ".tar.gz", ".tar.xz"])
def test_main_against_a_release(
    ending: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old = list(as_json(capsys, "--from", str(RUNS), "--article", "1").values())
    old[0]["verdict"] = "disputed"
    release = tmp_path / "tcp-lab-1.0"
    (release / "docs").mkdir(parents=True)
    (release / "docs" / "claims.json").write_text(json.dumps(old))
    (release / "README.md").write_text("x")
    if ending:
        formats = {".zip": "zip", ".tar.gz": "gztar", ".tar.xz": "xztar"}
        release = Path(shutil.make_archive(str(release), formats[ending], tmp_path, "tcp-lab-1.0"))
    words = ["claims", "--from", str(RUNS), "--article", "1", "--against", str(release)]
    assert main(words) == 5
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 of ")


def test_main_against_what_has_no_verdicts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["claims", "--article", "1", "--against", str(tmp_path)]) == 2
    assert "is not a bundle" in capsys.readouterr().err


def test_main_in_short_and_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    short = told(capsys, "--all", "--from", str(RUNS))
    assert short.startswith("article 1: How socket buffers affect TCP throughput (author not named")
    assert "\nA1.10  right number, wrong reason\n" in short
    assert "       measured 13.62 (MiB/s); 1.7 % above the article's 13.4 (5 % allowed)\n" in short
    assert f"witness: virtual · Linux 6.1.192; runs: {RUNS} " in " ".join(short.split())
    assert short.endswith("labs claims --from STUDY|RUNS (labs runs list shows the studies)\n")
    full = told(capsys, "--from", str(RUNS), "--id", "A1.6,A1.12")
    assert "A1.10" not in full and "A1.10" in short
    for line in (
        "predicted 13.51; measured 13.62 (MiB/s)",
        "Judged on: default; 1000 Mbit/s, 200 ms",
        "Judged on: rmem100; 1000 Mbit/s, 200 ms. 4 of 6 figures",
    ):
        assert f"{line}\n" in full and line not in short
    assert "Tolerance: 3 %: a sample falls between" in full
    for text in (short, full):
        assert max(len(line) for line in text.splitlines() if str(RUNS) not in line) <= 100


def test_main_shows_what_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the kernels, too, only those on which a claim does not hold."""
    words = ("--from", str(RUNS))
    verdicts = {id_: verdict["verdict"] for id_, verdict in as_json(capsys, *words).items()}
    ids = re.compile(r"^(A1\.\w+) ", re.MULTILINE)
    shown = ids.findall(told(capsys, *words))
    assert sorted(shown) == sorted(id_ for id_ in verdicts if verdicts[id_] != HOLDS) != []
    assert verdicts[shown[0]] == WRONG and verdicts[shown[-1]] in (HARDWARE, NOT_JUDGED)
    for everything in (("--all",), ("--article", "1"), ("buffers",)):
        text = told(capsys, *words, *everything)
        assert ids.findall(text) == list(verdicts)
        counted = Counter(verdicts.values())
        assert f"{len(verdicts)} claims: {counted[HOLDS]} holds, " in text
        assert f", {counted[WRONG]} wrong, " in text


def test_main_of_the_recorded_runs_shows_kernels_that_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = told(capsys)
    about = text.partition("\nA1.11 ")[2].partition("\n\n")[0]
    assert about.startswith(" holds on Linux 5.10, 6.1, not on 6.12, 7.2\n")
    assert "Linux 6.12, 7.2: wrong" in about and "5.10, 6.1: holds" not in about
    assert "\nA1.4 " not in text and "\nA1.5 " in text
    words = [load["verdict"] for load in json.loads(TABLE.read_text())]
    holds, depends = words.count(HOLDS), sum(" on Linux " in word for word in words)
    counted = f"{len(words)} claims: {holds} holds, {depends} depends on kernel or testbed, "
    assert counted in " ".join(text.split())


def test_main_of_the_recorded_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """All archives count; few words in each row, the evidence behind them, each title once."""
    verdicts = as_json(capsys)
    assert {verdicts[name]["verdict"] for name in ("A1.4", "A1.6")} == {HOLDS}
    assert "the testbeds agree, ratios of default 1.07" in " ".join(verdicts["A1.6"]["evidence"])
    kernels = verdicts["A1.6"]["witness"]["kernel"].split(", ")
    assert [name.rpartition(".")[0] for name in kernels if "-" not in name] == [
        *("5.10", "6.1", "6.12", "7.2")
    ]
    for name, exact in (("A4.2", "73,984"), ("A4.3", "62,464")):
        on_older = verdicts[name]["parts"][0]
        assert (on_older["verdict"], on_older["where"]) == (HOLDS, "Linux 5.10, 6.1")
        assert on_older["witness"]["testbed"] == "virtual, vagrant"
        assert exact in str(on_older["measured"]).replace("73984", "73,984").replace(
            "62464", "62,464"
        )
    titles = []
    for verdict in verdicts.values():
        for row in verdict["parts"] or [verdict]:
            assert 0 < len(row["because"].split()) <= MOST_WORDS
            assert row["because"].removesuffix(f" {MORE}") in " ".join(verdict["evidence"])
        titles += [note] if (note := verdict["note"]) and ", tcp: " in note else []
    assert len({title.partition("commit ")[2] for title in titles}) == len(titles) >= 2


def test_main_takes_the_newest_study_here_first_and_then_the_recorded_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As after `make lab`: a few runs here, and every claim judged."""
    own_study = str(study(Path("runs"), "default"))
    verdicts = as_json(capsys, "--article", "1")
    judged = {id_: entry for id_, entry in verdicts.items() if entry["verdict"] != NOT_JUDGED}
    of_study = {id_ for id_, entry in judged.items() if entry["runs"] == own_study}
    assert of_study == {"A1.6", "A1.13"}
    assert {entry["runs"] for entry in judged.values()} == {own_study, "the recorded runs"}
    assert verdicts["A1.11"]["verdict"] == "holds on Linux 5.10, 6.1, not on 6.12, 7.2"
    text = told(capsys, "--all")
    for lab in with_ledgers():
        assert article_of(lab).citation in " ".join(text.split())
    assert "witness: virtual · Linux 6.1.192, 6.12.117\n" in text


def test_main_shows_figures_that_could_not_decide(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the testbed that has them, or of both: the recorded runs of article 2."""
    verdicts = as_json(capsys, "--article", "2")
    assert {verdicts[name]["verdict"] for name in ("A2.2", "A2.3", "A2.6")} == {NOT_JUDGED}
    assert verdicts["A2.2"]["witness"]["testbed"] == "vagrant"  # the other has no such setting
    assert verdicts["A2.2"]["measured"]["rx-usecs-2000-c1"] == pytest.approx(2.37, abs=0.005)
    assert verdicts["A2.1"]["witness"]["testbed"] == "namespaces, vagrant"
    of_file = {"testbed": "emulated", "kernel": record()["source"]}  # judged without a run
    assert verdicts["A2.9"]["witness"] == verdicts["A2.12"]["witness"] == of_file
    assert verdicts["A2.5"]["verdict"] == NOT_JUDGED  # more CPUs alone would not make it comparable
    assert (
        "the article has 8 queues and threads, and these runs have 2. "
        in verdicts["A2.5"]["reason"]
    )
    assert "CPUs: 2, needed: 3" in verdicts["A2.5"]["reason"]


def test_main_ignores_a_trial_with_other_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    earlier = str(study(Path("runs"), "default", "wmem"))
    trial(Path("runs"), "default", rate_mbit=100.0, delay_ms=50.0)
    verdicts = as_json(capsys, "--article", "1")
    assert verdicts["A1.6"]["runs"].startswith(earlier)
    assert verdicts["A1.6"]["link"].startswith("1000 Mbit/s, 200 ms")
    alone = as_json(capsys, "--from", "runs/studies/buffers.json")
    assert alone["A1.6"]["verdict"] == NOT_JUDGED


def test_main_shows_a_speed_of_the_article_s_machines_beside_runs_at_its_rate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trial(Path("runs"), "shaped", rate_mbit=100.0)
    assert as_json(capsys, "--article", "1")["A1.2"]["link"].startswith("1000 Mbit/s")


def test_main_judges_a_source_by_the_articles_on_its_labs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert {id_[:2] for id_ in as_json(capsys, "--from", str(RUNS))} == {"A1"}
    verdicts = as_json(capsys, "--from", str(recorded.folder() / "nagle.tar.xz"))
    assert list(verdicts) == [claim.id for claim in article_of(find("nagle")).claims]
    assert NOT_JUDGED not in {entry["verdict"] for entry in verdicts.values()}


def test_main_adds_further_studies_of_the_same_parameters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As `labs run buffers` and then `labs run buffers --only httping` leave it."""
    study(Path("runs"), "default")
    study(Path("runs"), "httping", only="httping")
    verdicts = as_json(capsys, "--article", "1")
    assert NOT_JUDGED not in (verdicts["A1.5"]["verdict"], verdicts["A1.6"]["verdict"])
    assert {verdicts[id_]["runs"].split("/")[0] for id_ in ("A1.5", "A1.6")} == {"runs"}


def test_main_of_a_study_file_and_of_a_single_run(capsys: pytest.CaptureFixture[str]) -> None:
    file = study(Path("mine"), "httping", "default")
    assert as_json(capsys, "--from", str(file))["A1.5"]["verdict"] == "wrong"
    run = next(Path("mine").glob("buffers-httping-*"))
    verdicts = as_json(capsys, "--from", str(run))
    assert (verdicts["A1.5"]["verdict"], verdicts["A1.6"]["verdict"]) == ("wrong", NOT_JUDGED)


def test_main_takes_recorded_runs_where_nothing_was_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study(Path("data"), "default", "httping")
    monkeypatch.setattr(recorded, "places", lambda lab: [Path("data")])
    assert as_json(capsys, "--article", "1")["A1.4"]["verdict"] == "holds"


def test_main_goes_on_after_a_lab_without_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study(Path("data"), "default")
    monkeypatch.setattr(recorded, "places", lambda lab: [Path("data")])
    assert {id_.split(".")[0] for id_ in as_json(capsys)} == {"A1"}
    text = told(capsys)
    for lab, article in ((lab, article_of(lab)) for lab in with_ledgers()):
        assert article.title.split(":")[0] in text
        without = f"there are no runs of {lab.name}, neither in the folder runs nor in the recorded"
        assert (without in text) == (lab.name != "buffers")


@pytest.mark.parametrize("words", [(), ("nagle",), ("--article", "3")])
def test_main_refuses_labs_without_any_runs(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("data").mkdir()
    monkeypatch.setattr(recorded, "places", lambda lab: [Path("data")])
    error = told(capsys, *words, code=2)
    assert error.count("\n") == 1 and "there are no runs of " in error


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (("--from", "nowhere"), "nowhere"),
        (("--article", "99"), f"there is no article 99 with claims. Allowed: {ARTICLES}"),
        (("--article", "99"), "labs claims ./mylab.py"),
        (("--article", "one"), '--article "one" is invalid; allowed: a whole number'),
        (("--id", "A1.99"), "A1.99 is not a claim"),
        (("--id", "A9.9"), "A9.9 is not a claim. Allowed: A1.1 to A1.23, A2.1 to A2.12, "),
        (("nagle", "--id", "A1.5"), "A1.5 is not a claim. Allowed: A3.1 to A3.13. "),
        (("--all", "--id", "A1.5"), "--all cannot be combined with --id"),
        (("--all", "--against", str(TABLE)), "--all cannot be combined with --id or --against"),
        (("--id", "A6.1", "--seeds", "5"), "none of the selected claims depends on chance"),
        (("--id", "A6.22", "--seeds", "0"), "--seeds 0 is out of range"),
        (("--id", "A6.22", "--seeds", "5", "--from", "x"), "Omit --from"),
        (("--id", "A6.22", "--kernel", "6.12"), "--kernel is used only with --seeds"),
        (("--id", "A6.22", "--dry-run"), "--dry-run is used only with --seeds"),
        (("--seeds", "5"), "Name a LAB, --article or --id"),
        (("--form", "x"), "--form is not a flag of labs claims; did you mean --from?"),
    ],
)
def test_main_refuses(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], phrase: str
) -> None:
    error = told(capsys, *words, code=2)
    assert phrase in error
    assert error.count("\n") == 1


def test_main_seeds_lists_the_draws_of_claims_with_chance(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A6.1 is of one flow without loss, so it needs no draw."""
    words = ("--id", "A6.1,A6.22,A6.26", "--seeds", "3", "--kernel", "6.1,6.12", "--dry-run")
    text = told(capsys, *words)
    names = Counter(re.findall(r"^ *\d+ +6\.\d+ +(\S+)", text, re.M))
    assert names == {"late-bbr": 6, "reno-cubic": 6}


def test_main_seeds_performs_the_draws_of_these_claims_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def grid_of(p: Any, over: Any, wanted: Wanted) -> Any:
        asked.append((p.only, p.kernel, p.runs, over, wanted.jobs))
        return SimpleNamespace(errors=())

    monkeypatch.setattr("labs.studies.grid.grid_of", grid_of)
    words = ("--id", "A6.1,A6.22,A6.20", "--seeds", "3", "--into", "draws", "--jobs", "1")
    assert "draws" in told(capsys, *words, code=2)  # nothing was performed
    names = "crowd-one-bbr,late-bbr,pair-one-bbr"
    ((only, *others),) = asked
    assert ",".join(sorted(only.split(","))) == names
    assert others == ["6.1", "draws", {"seed": (1, 2, 3)}, 1]


def test_main_of_one_of_the_labs_of_an_article(capsys: pytest.CaptureFixture[str]) -> None:
    packed = str(recorded.folder() / "sharing.tar.xz")
    verdicts = as_json(capsys, "--article", "6", "--from", packed)
    assert list(verdicts) == [claim.id for claim in article_of(find("sharing")).claims]
    assert list(as_json(capsys, "--id", "A6.20", "--from", packed)) == ["A6.20"]
    assert verdicts["A6.20"]["draws"]["count"] == 1  # recorded draws are not of this file
    assert "A6.7" not in verdicts and "no run of queues" in told(
        capsys, "--id", "A6.7,A6.20", "--from", packed, code=2
    )


def test_main_refuses_runs_of_another_lab_or_twice_of_one_condition(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_run(Path("other"), inputs(lab="pings"))
    assert "has no run of buffers" in told(capsys, "--from", "other", code=2)
    make_run(Path("twice"), inputs(memory_mib=512))
    make_run(Path("twice"), inputs(memory_mib=1024))
    assert "several runs of both, and no study" in told(capsys, "--from", "twice", code=2)
