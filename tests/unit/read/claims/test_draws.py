"""Which conditions have chance, and claims judged by the rows of an index or by runs of seeds."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from labs.batches.index_writer import IndexWriter, PlannedRow
from labs.catalog import find, with_ledgers
from labs.errors import BadInput
from labs.guest.condition import Condition
from labs.read.batch_index_schema import MADE, beside
from labs.read.claims.composition import (
    COMPETING,
    DRAW,
    RANDOM_DROPS,
    RANDOM_LOSS,
    chance,
    chance_of,
)
from labs.read.claims.evidence import recorded_draws
from labs.read.claims.ledger import Claim, read
from labs.read.claims.sources import (
    Source,
    recorded_sources,
    sources_of,
    verdicts_from,
    with_recorded_draws,
)
from labs.read.claims.verdict import FEWEST_DRAWS, HOLDS, NOT_JUDGED, UNDECIDED, Verdict, overlap
from labs.read.lab import Lab
from labs.read.result_row import result_row
from labs.read.runs import recorded
from labs.read.runs.run import Run
from tests.run_folders import LINK, inputs, make_run

SHARING = find("sharing")
LATE = "late-bbr"
CLAIM = "A6.22"


@cache
def conditions(lab: str) -> Mapping[str, Condition]:
    found = find(lab)
    every = found.conditions(found.Parameters(size="full", testbed="recorded"))
    return {one.name: one for one in every}


@pytest.mark.parametrize(
    ("lab", "name", "why"),
    [
        ("sharing", "reno-cubic", (COMPETING,)),
        ("sharing", "incast-fifo", (COMPETING,)),
        ("queues", "four-fq-codel", (COMPETING,)),
        ("queues", "pie", (RANDOM_DROPS,)),
        ("queues", "loss-random", (RANDOM_LOSS,)),
        ("queues", "codel", ()),
        ("queues", "acks-slow", ()),
        ("buffers", "loss-1-reno-0", (RANDOM_LOSS,)),
        ("buffers", "default", ()),
        ("windows", "article-scale0", ()),
    ],
)
def test_chance_follows_from_the_condition(lab: str, name: str, why: tuple[str, ...]) -> None:
    assert chance(conditions(lab)[name]) == why


def test_chance_of_conditions_with_draws_of_their_own_is_none() -> None:
    assert chance_of([conditions("buffers")["loss-1-reno-0"]]) == ""
    assert chance_of([conditions("queues")["pie"], conditions("queues")["codel"]]) == RANDOM_DROPS


@cache
def late_run() -> Run:
    runs = [run for source in recorded_sources(SHARING) for run in source.runs]
    return next(
        run for run in runs if run.condition == LATE and run.kernel.release.startswith("6.1.")
    )


def index(folder: Path, **columns: list[Any]) -> Path:
    """An index of five draws, each with the results of the recorded run, but for these columns."""
    path = folder / "draws-sharing.parquet"
    run, lab = late_run(), SHARING
    rows = [
        PlannedRow(seed, lab.Parameters(only=LATE, seed=seed), LATE, f"{seed:064x}", folder)
        for seed in range(1, FEWEST_DRAWS + 1)
    ]
    told = result_row(run, lab.results(run), group="starts", source="")
    with IndexWriter(path, lab, rows, title="", axes={"seed": (1, 2, 3, 4, 5)}) as writer:
        for at, row in enumerate(rows):
            changed = {name: values[at] for name, values in columns.items()}
            cells = {**told, **changed}
            values = {beside(name, lab.Parameters): value for name, value in cells.items()}
            writer.fill(row.key, MADE, None, values | {"excluded": False})
    return path


def judged(folder: Path, monkeypatch: pytest.MonkeyPatch, **columns: list[Any]) -> Verdict:
    run = late_run()
    index(folder, **columns)
    monkeypatch.setattr(recorded, "folder", lambda: folder)
    sources = with_recorded_draws(SHARING, [Source("", (run,))])
    (found,) = verdicts_from(SHARING, sources, [CLAIM])
    return found


def test_rows_of_an_index_judge_a_claim_with_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fair = [0.99, 0.98, 0.97, 0.999, 1.0]
    found = judged(tmp_path, monkeypatch, jain=fair)
    assert (found.verdict, found.measured) == (HOLDS, 0.99)
    assert found.draws is not None
    assert (found.draws.low, found.draws.high, found.draws.count) == (0.97, 1.0, 5)
    assert found.conditions == LATE and found.witness is not None
    assert found.witness.kernel == late_run().kernel.release
    assert found.behind is not None and found.behind.files == ("draws-sharing.parquet",)
    assert list(found.behind.conditions) == [LATE]
    assert judged(tmp_path, monkeypatch, jain=[0.5, *fair[1:]]).verdict == UNDECIDED
    assert judged(tmp_path, monkeypatch, jain=[0.5] * 5).verdict == "differs"


def test_rows_with_a_bad_link_or_of_other_runs_do_not_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = judged(tmp_path, monkeypatch, link_ok=[True] * 4 + [False])
    assert (bad.verdict, bad.draws and bad.draws.count) == (NOT_JUDGED, 4)
    other = judged(tmp_path, monkeypatch, digest=["0" * 64] * 5)
    assert (other.verdict, other.draws and other.draws.count) == (NOT_JUDGED, 1)
    assert other.measured == SHARING.results(late_run()).values["jain"]


def test_runs_of_several_seeds_in_a_folder_are_draws(tmp_path: Path) -> None:
    for seed in (1, 2):
        make_run(tmp_path, inputs(seed=seed))
    found = sources_of(find("buffers"), tmp_path)
    assert [[run.inputs["seed"] for run in source.runs] for source in found] == [[1], [2]]
    other = {**inputs()["condition"], "link": {**LINK, "rate_mbit": 100}}
    make_run(tmp_path, inputs(seed=3, condition=other))
    with pytest.raises(BadInput, match="several runs of both"):
        sources_of(find("buffers"), tmp_path)


def of_claim(lab: Lab, claim: Claim) -> list[Condition]:
    known = conditions(lab.name)
    return [known[one] for one in known if any(fnmatchcase(one, name) for name in claim.conditions)]


def claims_with_chance() -> list[tuple[str, str]]:
    return [
        (lab.name, claim.id)
        for lab in with_ledgers()
        if lab.ledger is not None
        for claim in read(lab.ledger).claims
        if not claim.hardware and chance_of(of_claim(lab, claim))
    ]


@cache
def on_recorded(lab: str) -> Mapping[str, Verdict]:
    found = verdicts_from(find(lab), recorded_sources(find(lab)))
    return {one.id: one for one in found}


# Needs data/draws-sharing.parquet and data/draws-queues.parquet.
@pytest.mark.parametrize(("lab", "id_"), claims_with_chance())
def test_every_claim_with_chance_rests_on_five_draws_of_each_kernel(lab: str, id_: str) -> None:
    found = on_recorded(lab)[id_]
    for kernel in found.single:
        assert kernel.draws is not None and kernel.draws.count >= FEWEST_DRAWS, kernel.witness
        assert len(kernel.draws.seeds) == kernel.draws.count
    for row in found.rows:
        held = {one.verdict == HOLDS for one in row.drawn}
        assert (row.verdict == UNDECIDED) == (len(held) == 2)
        assert (row.verdict == HOLDS) == (held == {True})
        ranges = [(one.draws.low, one.draws.high) for one in row.witnesses if one.draws is not None]
        alike = {one.verdict for one in row.witnesses} == {row.verdict}
        assert alike or all(overlap(*both) for both in combinations(ranges, 2))
    assert all(one.is_judged for row in found.rows for one in row.drawn)


# Needs five draws of each few-* condition of `buffers`.
def test_conditions_with_draws_of_their_own_have_five() -> None:
    counted: dict[tuple[str, ...], int] = {}
    for lab in with_ledgers():
        for one in conditions(lab.name).values():
            if DRAW in one.settings and chance(one):  # without loss one draw is all there is
                rest = {name: value for name, value in one.settings.items() if name != DRAW}
                what = (lab.name, str(one.link), str(rest), str(one.sysctls))
                counted[what] = counted.get(what, 0) + 1
    assert "buffers" in {lab for lab, *_ in counted}
    assert all(count >= FEWEST_DRAWS for count in counted.values())


# Needs data/draws-sharing.parquet and data/draws-queues.parquet.
@pytest.mark.parametrize("lab", ["sharing", "queues"])
def test_recorded_draws_of_seed_1_are_the_recorded_runs(lab: str) -> None:
    runs = {
        (run.condition, run.kernel.release): run
        for source in recorded_sources(find(lab))
        for run in source.runs
        if run.inputs["seed"] == 1
        and run.testbed == "virtual"
        and not recorded_differences(lab, run)
    }
    for draw in recorded_draws(find(lab)):
        first = {name: row for name, row in draw.rows.items() if row["seed"] == 1}
        compared = 0
        for name, row in first.items():
            if (run := runs.get((name, row["kernel"]))) is not None:
                assert row["digest"] == run.digest, (name, row["kernel"])
                assert row["asked"].as_json() == run.condition_asked.as_json()
                compared += 1
        assert compared > len(first) / 2 or not first, draw.parameters


def recorded_differences(lab: str, run: Run) -> bool:
    """Whether a recorded run was requested otherwise than in the full study."""
    asked = conditions(lab).get(run.condition)
    return asked is None or bool(recorded.unequal(asked.as_json(), run.condition_asked.as_json()))
