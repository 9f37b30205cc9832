"""Recorded data: read as a RUNS folder, found by condition, checked against its sums."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import labs
from labs.errors import BadInput, Damaged, Missing
from labs.experiments.stack.conditions import Parameters as Stack
from labs.read.runs import kept_content, recorded
from labs.read.runs.listing import index
from labs.studies.study import study
from tests.run_folders import LINK, inputs, make_run, make_study

BUDGET_BYTES = 4_000_000  # a lab's; with what later labs add, still a quick clone


def wish(condition: str = "both", **changed: Any) -> dict[str, Any]:
    """A condition as a plan asks for it."""
    found: dict[str, Any] = inputs(condition)["condition"]
    return {**found, **changed}


def match(
    data: Path,
    *requested: dict[str, Any],
    kernel: str = "6.1",
    seed: int = 1,
    memory_mib: int = 4096,
) -> list[str]:
    return [
        run.name
        for run in recorded.matching(
            "buffers", requested, kernel=kernel, seed=seed, memory_mib=memory_mib, data=data
        )
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Recorded data with one study."""
    recorded.keep(make_study(tmp_path / "runs").path, tmp_path / "data")
    return tmp_path / "data"


def test_check_of_the_projects_own_data() -> None:
    try:
        data = recorded.folder()
    except Missing as error:
        pytest.skip(str(error))
    assert recorded.check(data) > 0
    runs = recorded.runs_in(data, "buffers")
    entries = index(runs)
    assert entries and [entry.problem for entry in entries if entry.problem] == []
    assert not list(runs.rglob("host.json"))
    for path in data.glob("*.tar.xz"):
        assert path.stat().st_size < BUDGET_BYTES


def test_matching_finds_a_run_in_a_renamed_folder(tmp_path: Path) -> None:
    """A packed file with names of the reader's own."""
    data = tmp_path / "data"
    data.mkdir()
    run = make_run(data, inputs("both"))
    run.rename(data / "mine")
    assert match(data, wish()) == ["mine"]


def test_matching_does_not_open_runs_of_other_conditions(tmp_path: Path) -> None:
    """A damaged run of another condition hides no other run."""
    data = tmp_path / "data"
    whole = make_run(data, inputs("both"))
    damaged = make_run(data, inputs("default"))
    (damaged / "run.json").write_text("{}")
    assert match(data, wish()) == [whole.name]
    with pytest.raises(Damaged):
        match(data, wish("default"))


def test_keep_leaves_host_json_out(tmp_path: Path, data: Path) -> None:
    runs = recorded.runs_in(data, "buffers")
    assert [entry.name for entry in index(runs)] == [
        entry.name for entry in index(tmp_path / "runs")
    ]
    assert not list(runs.rglob("host.json"))
    assert recorded.check(data) == sum(path.is_file() for path in data.rglob("*")) - 1
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=data, check=True)


def test_keep_replaces_the_runs_of_the_lab(tmp_path: Path, data: Path) -> None:
    (data / "DATASETS.md").write_text("prose\n")
    other = data / "delay.tar.xz"
    other.write_bytes(b"another lab's")
    study = make_study(tmp_path / "new", ("unshaped",))
    recorded.keep(study.path, data)
    assert sorted(
        (entry.lab, entry.condition) for entry in index(recorded.runs_in(data, "buffers"))
    ) == [("buffers", ""), ("buffers", "unshaped")]
    assert other.read_bytes() == b"another lab's"
    assert (data / "DATASETS.md").read_text() == "prose\n"
    recorded.check(data)


def test_check_finds_changed_data(data: Path) -> None:
    packed = data / "buffers.tar.xz"
    packed.write_bytes(packed.read_bytes() + b"more")
    with pytest.raises(Damaged, match=r"buffers\.tar\.xz does not match SHA256SUMS"):
        recorded.check(data)
    packed.unlink()
    with pytest.raises(Damaged, match=r"buffers\.tar\.xz is missing"):
        recorded.check(data)
    recorded.write_sums(data)
    (data / "more.txt").write_bytes(b"")
    with pytest.raises(Damaged, match=r"more\.txt does not match SHA256SUMS"):
        recorded.check(data)


@pytest.mark.parametrize("kernel", ["6.1", "6.1.192", "6.1.192-2"])
def test_matching_a_kernel_by_any_version(data: Path, kernel: str) -> None:
    assert match(data, wish("both"), kernel=kernel) == [
        path.name for path in recorded.runs_in(data, "buffers").glob("buffers-both-*")
    ]


def test_matching_a_kernel_by_digest_or_without_revision(tmp_path: Path) -> None:
    kernel = {"version": "6.1.192", "digest": inputs()["kernel"]["digest"]}
    name = make_run(tmp_path, inputs(kernel=kernel)).name
    for requested in (kernel["digest"][:8], "6.1.192-2", "6.1.192"):
        assert match(tmp_path, wish(), kernel=requested) == [name]
    for requested in ("6.1.19", "6.1.193-1", "6.12", "0123456789"):
        with pytest.raises(BadInput, match=rf"with kernel = {requested} \(recorded: 6.1.192\)\. "):
            match(tmp_path, wish(), kernel=requested)


def test_matching_keeps_the_requested_order(data: Path) -> None:
    found = match(data, wish("both"), wish("default"))
    assert [name.split("-")[1] for name in found] == ["both", "default"]


def test_matching_ignores_tools_and_code(tmp_path: Path) -> None:
    name = make_run(tmp_path, inputs(tools={}, code="f" * 64)).name
    assert match(tmp_path, wish()) == [name]


def test_matching_compares_numbers_by_value(data: Path) -> None:
    link = {**LINK, "delay_ms": 200.0, "rate_mbit": 1000.0}
    assert match(data, wish(link=link)) == match(data, wish())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"link": {**LINK, "rate_mbit": 10}}, r"with rate_mbit = 10 \(recorded: 1000\)\. "),
        ({"link": {**LINK, "rate_mbit": None}}, r"with rate_mbit = none \(recorded: 1000\)\. "),
        (
            {"settings": {"transfer_mib": 1, "client": "wget"}},
            r"with transfer_mib = 1 \(recorded: 1024\), client = wget \(recorded: discard\)\. ",
        ),
        ({"sysctls": {}}, r"= none \(recorded: net.ipv4.tcp_wmem=4096 16384 52428800\)"),
        ({"name": "bth"}, r"`bth`; did you mean both\? \(recorded: both, default\)\. "),
    ],
)
def test_matching_says_what_is_recorded_instead(
    data: Path, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput, match=said) as caught:
        match(data, wish("default"), wish("both", **changed))
    assert str(caught.value).endswith('To run it, set TESTBED = "virtual" (on Linux).')
    assert "\n" not in str(caught.value)


def test_matching_requires_seed_and_memory(data: Path) -> None:
    with pytest.raises(BadInput, match=r"seed = 2 \(recorded: 1\), memory_mib = 8192 "):
        match(data, wish(), seed=2, memory_mib=8192)


def test_matching_expects_the_memory_that_a_kernel_gets(tmp_path: Path) -> None:
    """A kernel since 6.16 gets more than was requested, for its largest buffers."""
    kernel = {"version": "7.2.13-1", "digest": "0" * 64}
    name = make_run(tmp_path, inputs(kernel=kernel, memory_mib=5120)).name
    assert match(tmp_path, wish(), kernel="7.2") == [name]
    with pytest.raises(BadInput, match=r"memory_mib = 8192 \(recorded: 5120\)"):
        match(tmp_path, wish(), kernel="7.2", memory_mib=8192)


def test_matching_takes_the_newest_kernel(tmp_path: Path) -> None:
    for version in ("6.1.99-1", "6.1.192-2", "6.1.191-1"):
        make_run(tmp_path, inputs(kernel={"version": version, "digest": "0" * 64}))
    make_run(tmp_path, inputs(testbed="vagrant", kernel=None))
    newest = make_run(tmp_path, inputs(kernel={"version": "6.1.192-2", "digest": "0" * 64}))
    assert match(tmp_path, wish()) == [newest.name]


def test_folder_of_a_clone_and_of_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, package = Path(labs.__file__).parents[1], Path(labs.__file__).parent
    assert (clone / "data", package / "recorded") == kept_content.FOLDERS
    places = (tmp_path / "site/data", tmp_path / "site/labs/recorded")
    monkeypatch.setattr(kept_content, "FOLDERS", places)
    with pytest.raises(Missing, match="there is no recorded data in"):
        recorded.folder()
    for place in reversed(places):
        place.mkdir(parents=True)
        recorded.write_sums(place)
        assert recorded.folder() == place


def test_keep_of_a_folder_takes_the_studies_of_one_lab(tmp_path: Path) -> None:
    make_study(tmp_path / "runs", ("both",))
    make_study(tmp_path / "runs", ("unshaped",))
    recorded.keep(tmp_path / "runs", tmp_path / "data")
    assert sorted(
        entry.condition
        for entry in index(recorded.runs_in(tmp_path / "data", "buffers"))
        if entry.condition
    ) == ["both", "unshaped"]
    make_run(tmp_path / "runs", inputs(lab="delay"))
    with pytest.raises(BadInput, match="has runs of buffers, delay"):
        recorded.keep(tmp_path / "runs", tmp_path / "data")


def test_matching_finds_each_draw_by_its_seed(tmp_path: Path) -> None:
    drawn: dict[str, Any] = {"settings": {**inputs("both")["condition"]["settings"], "draw": 3}}
    kept = make_run(tmp_path / "data", inputs(seed=8, condition=wish(**drawn)))
    assert match(tmp_path / "data", wish(**drawn), seed=5) == [kept.name]
    with pytest.raises(BadInput, match=r"seed = 11 \(recorded: 8\)"):
        match(tmp_path / "data", wish(**drawn), seed=8)


def test_keep_refuses_a_folder_of_other_files(tmp_path: Path) -> None:
    study, other = make_study(tmp_path / "runs"), tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    for place in (other, other / "notes.txt"):
        with pytest.raises(BadInput, match="it has no SHA256SUMS"):
            recorded.keep(study.path, place)
    assert [path.name for path in other.iterdir()] == ["notes.txt"]


def test_keep_of_a_changed_run_writes_nothing(tmp_path: Path) -> None:
    study = make_study(tmp_path / "runs")
    next((tmp_path / "runs").glob("buffers-both-*/run.json")).write_bytes(b"{}")
    with pytest.raises(Damaged):
        recorded.keep(study.path, tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())


def test_keep_under_a_name_of_its_own(tmp_path: Path, data: Path) -> None:
    other = make_study(tmp_path / "other", ("wmem",), seed=5)
    for name in ("witnesses", "buffers", "buffers-", "buffers-../x", "buffers-a.tar.xz"):
        with pytest.raises(BadInput, match=f"^{name} cannot name runs of buffers. Allowed: "):
            recorded.keep(other.path, data, name)
    recorded.keep(tmp_path / "other", data, "buffers-witnesses")
    assert recorded.check(data) == 2
    assert len(recorded.places("buffers", data)) == 2
    (found,) = match(data, wish("wmem"), seed=5)
    assert found.startswith("buffers-wmem-")
    assert match(data, wish("both"))


def test_study_of_recorded_repetitions_in_real_time() -> None:
    p = Stack(testbed="recorded", only="polling-c1,open-120", work_us=1000, duration_s=3)
    found = study(p)
    assert found.conditions == ("polling-c1", "open-120")
    assert {run.testbed for run in found.every} == {"namespaces"}
    # `polling-c1` is in the study of the article and in the one of its load's threads.
    assert [len(one.runs) for one in found.repeated] == [10, 5]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"only": "open-120"}, "rate_per_s = 6000 (recorded: 1200)"),  # other work per request
        ({"only": "polling-c1"}, "duration_s = 1 (recorded: 3)"),
        ({"only": "rx-usecs-2000-c1"}, "no recorded run of `rx-usecs-2000-c1`; did you mean"),
    ],
)
def test_study_refuses_repetitions_that_are_not_recorded(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as error:
        study(Stack(testbed="recorded", **given))
    assert said in str(error.value) and 'TESTBED = "namespaces"' in str(error.value)
