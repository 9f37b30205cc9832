"""What every lab keeps to, on its recorded runs. Claims: a verdict has a reason in one line and a
witness, and with other figures, or with the runs of other conditions, it is another one. Exercises:
the values by hand are right, and no mistake is. Charts can be drawn of any table. Columns have
units, and each measurement has its prediction. Parameters refuse what is out of range."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import combinations, islice
from pathlib import Path

import pytest
import yaml
from pandas import DataFrame

import labs
from labs.catalog import LABS, find, with_ledgers
from labs.drive.kernel.versions import SERIES
from labs.drive.parameters.declare import check, declared
from labs.errors import BadInput
from labs.experiments.stack import claims as of_stack
from labs.grading.grade_sheet import RunEvidence
from labs.read.claims.composition import chance
from labs.read.claims.evidence import Evidence, recorded_draws
from labs.read.claims.judge import check_columns, judge, judges_of, split_reference
from labs.read.claims.ledger import WILD, Article, Claim, read
from labs.read.claims.sources import recorded_sources
from labs.read.claims.verdict import NO_WORD, Verdict
from labs.read.exercises.exercise import Evidence as Known
from labs.read.exercises.exercise import of_lab
from labs.read.exercises.graded_answer import RIGHT, WRONG, grade
from labs.read.lab import Lab
from labs.read.theory.queueing import capacity_per_s, closed_loop_us, evenly_spaced_us
from labs.studies.study import Study
from tests import golden
from tests.changed_evidence import Change, Changed
from tests.same import OF_A_STUDY, OF_A_TABLE

UNJUDGED = (
    "A1.1",
    "A1.2",
    "A3.2",
    "A2.1",
    "A2.2",
    "A2.3",
    "A2.5",
    "A2.6",
    "A2.8",
    "A2.11",
    "A5.6b",
    "A5.7b",
    "A5.9",
    "A5.10",
    "A5.11",
    "A4.9b",
    "A4.13b",
)
"""No recorded run judges them; made ones do for article 2 (unit/experiments/stack)."""
ROOT = Path(__file__).parents[2]
TRIES = 400
PAIRS = 40
"""Pairs of conditions that change places, at most."""
OTHER: Sequence[Change] = (
    lambda value: value,
    lambda value: value,
    lambda value: 10 * value,
    lambda value: value / 10,
    lambda value: 10 * value + 10,
    lambda value: 0 * value,
)
NOT_ZERO = OTHER[:-1]
"""For functions of a lab, which may divide by what is never 0 in a run."""
CLAIMS = [
    pytest.param(lab.name, claim.id, id=claim.id)
    for lab in with_ledgers()
    for claim in read(lab.ledger or Path()).claims
]


@cache
def article(lab: str) -> Article:
    return read(find(lab).ledger or Path())


@cache
def drawn(lab: str) -> Sequence[Evidence]:
    """The recorded draws of a lab, whose results need no run to be read."""
    return list(recorded_draws(find(lab)))


@cache
def recorded(lab: str) -> Sequence[Evidence]:
    """The recorded runs of a lab, by study, testbed and kernel."""
    sources = recorded_sources(find(lab))
    return [
        seen for source in sources if source.draw is None for seen in source.evidence(find(lab))
    ]


def seen_by(lab: str) -> Iterator[Evidence]:
    yield from drawn(lab)
    yield from recorded(lab)


def judged(lab: Lab, claim: Claim, seen: Evidence) -> Verdict:
    return judge(claim, seen, judges_of(lab), article(lab.name).parameters)


def changes(claim: Claim, seen: Evidence) -> Iterator[Evidence]:
    """The evidence with the runs of one condition everywhere, with those of two conditions in each
    other's place, and with other figures in the columns that the claim reads, for each of the
    patterns of conditions that it names."""
    chance = random.Random(claim.id)
    named = [split_reference(claim, reference) for reference in claim.references]
    patterns = dict.fromkeys(filter(None, (*claim.conditions, *(name for name, _ in named))))
    columns = sorted({*claim.columns.values(), *(column for _, column in named)})
    articles = [value for value in claim.figures.values() if isinstance(value, int | float)]
    constants = [lambda value, figure=figure: figure for figure in articles]
    names = list(dict.fromkeys(name for each in patterns for name in seen.matching(each)))
    for name in names[:3]:
        yield Changed(seen, dict.fromkeys(names, name))
    for first, second in islice(combinations(names, 2), PAIRS):
        yield Changed(seen, {first: second, second: first})
    for _ in range(TRIES):
        figures: dict[str, dict[str, Change]] = {}
        for pattern in names if claim.judge else patterns:
            other = {column: chance.choice([*OTHER, *constants]) for column in columns}
            if claim.judge:
                other = {column: chance.choice(NOT_ZERO) for column in seen.lab.columns}
            figures |= dict.fromkeys(seen.matching(pattern), other)
        yield Changed(seen, {}, figures)


def words(lab: Lab, claim: Claim) -> Iterator[str]:
    """The words of the recorded runs, then those with other figures."""
    judging = []
    for seen in seen_by(lab.name):
        verdict = judged(lab, claim, seen)
        assert verdict.reason and verdict.reason.isprintable()
        assert "{" not in verdict.reason and "[?" not in verdict.reason
        if verdict.verdict not in NO_WORD:
            assert verdict.witness is not None
            judging.append(seen)
            yield verdict.verdict
    for seen in judging:
        for changed in changes(claim, seen):
            yield judged(lab, claim, changed).verdict


@pytest.mark.parametrize(("name", "id_"), CLAIMS)
def test_verdict_has_a_reason_and_a_witness_and_depends_on_the_figures(
    name: str, id_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a claim that the recorded runs judge. A benchmark's counts are no run's: they are changed
    where a claim rests on them."""
    lab, claim, different = find(name), article(name).claim(id_), set[str]()
    counts = of_stack.instructions()
    others = dict.fromkeys(counts, counts["none"]) | {"none": counts["netfilter"]}
    for word in words(lab, claim):
        different |= {word} - {*NO_WORD}
        if len(different) > 1:
            return
        if claim.judge == "compiled_in":
            monkeypatch.setattr(of_stack, "instructions", lambda: others)
    assert not different and id_ in UNJUDGED, f"{id_} is {different} with all figures"


@pytest.mark.parametrize("lab", [pytest.param(lab, id=lab.name) for lab in with_ledgers()])
def test_columns_and_judging_functions_of_the_claims_exist_and_are_used(lab: Lab) -> None:
    check_columns(lab, article(lab.name))
    assert {claim.judge for claim in article(lab.name).claims} - {None} == set(judges_of(lab))


def test_few_claims_need_a_judging_function() -> None:
    assert sum(len(judges_of(lab)) for lab in with_ledgers()) <= 20


EXERCISES = {(lab, exercise.name): exercise for lab in LABS for exercise in of_lab(find(lab))[0]}
KERNEL = "6.1"
FULL = 125e6
"""Bytes per second of 1000 Mbit/s."""
PAYLOAD = 1448 / 1514
"""The share of payload in a frame."""
ADMITTED = 13.54 * 2**20
"""Bytes per second that the default buffers admit at 200 ms, as notebook 00 prints."""
LOSSY = 1448 / 0.04 / 0.001**0.5 / 2**20

# From the articles and the textbooks, by hand, and by every other way that a notebook offers: the
# BDP at the rate of the link or of the payload, the capacity of the recorded loops or the plain
# limit.
BY_HAND: dict[tuple[str, str], tuple[float | str, ...]] = {
    ("buffers", "bdp_mib"): (FULL * 0.022 / 2**20, FULL * PAYLOAD * 0.022 / 2**20),
    ("buffers", "limit"): ("link",),
    # What the buffers admit in 200 ms, and a run at 22.72 ms.
    ("buffers", "longest_rtt_ms"): (
        24.0,
        200 * ADMITTED / FULL,
        200 * ADMITTED / (FULL * PAYLOAD),
        22.72,
    ),
    ("buffers", "httping_ms"): (404.2, 400.0, 400.2),  # A1.4
    ("buffers", "wmem_limit"): ("receive window",),
    ("buffers", "buffer_mib"): (50e6 / 2**20, 2 * FULL * 0.2 * PAYLOAD / 2**20),  # A1.10
    ("buffers", "used_pct"): (100 * 10 / 210, 100 * 10 / 210.4),
    ("buffers", "scaled_mib_s"): (0.75 * 25e6 / 0.2 / 2**20,),
    ("buffers", "granted_kib"): (256.0,),
    ("buffers", "new_window_mib"): (0.75 * 32, 32 * 0.749),
    ("buffers", "granted_6_1_kib"): (2 * 208.0,),
    ("buffers", "granted_7_2_kib"): (2048.0,),
    ("buffers", "lossy_mib_s"): (1.31 * LOSSY, 1.22 * LOSSY),
    ("buffers", "lowest_rate_mbit"): (
        13.4 * 2**20 * 8 / 1e6 / PAYLOAD,
        8e-6 * ADMITTED,
        8e-6 * ADMITTED / PAYLOAD,
    ),
    # TCP_ATO_MIN is 40 ms (include/net/tcp.h), and a tick is 4 ms with HZ 250, 10 ms with HZ 100.
    # Over 20 ms, the part that was held back takes one round trip more.
    ("nagle", "longest_wait_ms"): (50.0,),
    ("nagle", "far_off_ms"): (2 * 20 + 40.0, 2 * 20 + 44.0),
    ("nagle", "far_on_ms"): (20.0,),
    ("nagle", "far_quickack_ms"): (2 * 20.0,),
    # 100 Mbit/s over 60 ms are 750,000 bytes; 3/7 of that for CUBIC; 1000 frames of 1514 bytes at
    # 50 Mbit/s; the window runs from 0.625 to 1.25 BDPs: (0.609 / 2 + 0.28125) / (0.375 + 0.28125).
    ("queues", "reno_buffer_kib"): (732.4,),
    ("queues", "cubic_buffer_kib"): (313.9,),
    ("queues", "fifo_delay_ms"): (242.2,),
    ("queues", "quarter_pct"): (89.3,),
    # A queue of one BDP holds about half of its 40 ms on average, so the RTTs are some 62 and
    # 102 ms, and the squares of their ratio 1 to 2.7; 1/sqrt(25); 100 / (3 * 66); 1/2 + 1/16, less
    # 4 packets of 264 and less ProbeRTT, 0.56 s of 10.
    ("sharing", "far_reno_pct"): (27.0,),
    ("sharing", "crowd_bdp"): (0.2,),
    ("sharing", "jain_index"): (0.505,),
    ("sharing", "bbr_deep_pct"): ((0.5 + 1 / 16 + 4 / 264) * 0.944 * 100,),
    # 1 s / 2 ms; 16 x 2 ms; 20 % of 3 s remain to be served; one request per connection; 9 us more
    # than 180 us; then the recorded loops, scaled from 1 ms to 2 ms, and the notebook's formulas.
    ("stack", "highest_rate_s"): (500.0, 486.0, 493.0, capacity_per_s(2000)),
    ("stack", "closed_loop_ms"): (32.0, 16e3 / 486, 30.8, closed_loop_us(16, 2000) / 1000),
    ("stack", "last_wait_ms"): (
        *(600.0, 602.0, 700.0),
        3000 * (600 / 486 - 1),
        evenly_spaced_us(600, 2000, 3) / 1000,
    ),
    ("stack", "stopped_requests"): (16.0,),
    ("stack", "wake_up_ratio"): (1.05, (180 + 34 - 25) / 180, 1 + (33.56 - 24.56) / 180),
    # 2 x 212,992 bytes; 0.2 ms x 40,000 / 250; two thirds of 256 KiB per 8 ms, because a writer is
    # woken when a third is free; the smaller buffer is the receiver's, and smaller than the BDP.
    ("sweeps", "granted_kib"): (416.0,),
    ("sweeps", "same_bdp_ms"): (32.0,),
    ("sweeps", "larger_mib_s"): (20.8, 20.512),  # the latter measured on Linux 6.1.192
    ("sweeps", "limit"): ("receive window",),
    # SO_RCVBUF doubles; 28 packets of 2,304 bytes are 64,512 of 65,536, so that a 29th is accepted;
    # 7/8 of 48 KiB; the first drop, and retransmissions after 1.3, 2.55, 5.05, 10.05, 20.05, 40.05
    # and 80.05 s.
    ("windows", "granted_bytes"): (200_704,),
    ("windows", "accepted_packets"): (29,),
    ("windows", "scaled_window_bytes"): (43_008,),
    ("windows", "dropped_packets"): (8,),
}
# Losses are random: the draws themselves lie up to 1.44 apart, 10 % more on each side. A share has
# the tolerance of its model, and a wait beyond the capacity magnifies a difference of capacities.
WIDEST = {"lossy_mib_s": 1.44 * 1.1 / 0.9, "far_reno_pct": 1.4, "last_wait_ms": 1.2}


def evidence(lab: str) -> Iterator[Known]:
    """Without runs, and the recorded ones."""
    yield from (Known(KERNEL), RunEvidence(KERNEL, find(lab)))


@pytest.mark.parametrize(("lab", "name"), EXERCISES)
def test_expected_contains_every_value_by_hand(lab: str, name: str) -> None:
    exercise = EXERCISES[lab, name]
    for runs in evidence(lab):
        expected = exercise.expected(runs)
        for value in BY_HAND[lab, name]:
            graded = grade(exercise, value, expected)
            assert (graded.verdict, graded.hint) == (RIGHT, ""), (value, expected)
        if not exercise.choices:
            assert expected.high <= expected.low * WIDEST.get(name, 1.12)


@pytest.mark.parametrize(("lab", "name"), EXERCISES)
def test_mistakes_are_wrong_and_have_their_hint(lab: str, name: str) -> None:
    """On every kernel."""
    exercise = EXERCISES[lab, name]
    for runs in (*evidence(lab), *map(Known, SERIES)):
        expected = exercise.expected(runs)
        for mistake in expected.mistakes:
            graded = grade(exercise, mistake.value, expected)
            assert graded.verdict == WRONG
            assert graded.hint in {other.hint for other in expected.mistakes}, mistake
        assert expected.choice in ("", *exercise.choices)


# Of each exercise, in order. A mistake that is a right answer would be left out of them.
MISTAKES = {
    "buffers": (1, 0, 2, 1, 0, 2, 3, 2, 2, 1, 2, 3, 3, 2),
    "nagle": (4, 5, 1, 2),
    "queues": (3, 2, 3, 2),
    "sharing": (3, 2, 2, 1),
    "stack": (2, 3, 3, 1, 1),
    "sweeps": (3, 2, 3, 2),
    "windows": (3, 2, 4, 2),
}


@pytest.mark.parametrize("lab", MISTAKES)
def test_no_mistake_is_a_right_answer(lab: str) -> None:
    declared = [exercise for (other, _), exercise in EXERCISES.items() if other == lab]
    counts = tuple(len(exercise.expected(Known(KERNEL)).mistakes) for exercise in declared)
    assert counts == MISTAKES[lab]


@pytest.mark.parametrize("lab", [pytest.param(lab, id=lab.name) for lab in with_ledgers()])
def test_a_ledger_is_of_the_lab_s_conditions_and_of_its_default_parameters(lab: Lab) -> None:
    """Without the patched kernel, that is asked for by name. `write_bytes` and `bdp_bytes` are
    named so by a column, not by a parameter."""
    names = [each.name for each in lab.conditions(lab.Parameters(size="full", testbed="recorded"))]
    for claim in article(lab.name).claims:
        plain = {name for name in claim.conditions if not set(name) & set(WILD)}
        assert {name for name in plain if "patched" not in name} <= set(names), claim.id
    defaults = lab.Parameters(testbed="recorded")
    for name, value in article(lab.name).parameters.items():
        if name in declared(lab.Parameters) and lab.name != "stack":  # a longer load than usual
            assert getattr(defaults, name) == value, name


@pytest.mark.parametrize("lab", LABS)
def test_a_column_has_a_meaning_and_a_unit_and_a_prediction_a_measurement(lab: str) -> None:
    columns = find(lab).columns
    assert any(column.headline for column in columns.values())
    for name, column in columns.items():
        assert column.meaning and (column.predicted_by is None or column.predicted_by in columns)
        for ending, unit in ENDINGS.items():
            assert not name.endswith(ending) or column.unit == unit, name
    if lab not in ("stack", "windows"):  # no theory of times, and a column of its own
        assert any(column.predicted_by for column in columns.values())


ENDINGS = {"_us": "us", "_mib_s": "MiB/s", "_kib": "KiB", "_mbit": "Mbit/s"}
"""Of a column's name, and the unit that it must have then."""
TABLES = [(lab, name) for lab, names in OF_A_TABLE.items() for name in names]


@pytest.mark.parametrize(("lab", "name"), TABLES)
def test_a_chart_of_a_table_is_drawn_of_no_row_and_of_each_row_alone(lab: str, name: str) -> None:
    draw = getattr(getattr(labs.charts, lab), name)
    for empty in (DataFrame(), golden.rows_of(lab)[:0]):
        figure = draw(empty)
        assert not figure.data and figure.layout.meta["tell"]
    for place in range(0, len(golden.rows_of(lab)), 5):
        figure = draw(golden.rows_of(lab)[place : place + 1])
        assert figure.layout.meta["tell"] and figure.to_json()


@pytest.mark.parametrize(
    ("lab", "name"),
    [(lab, name) for lab, names in OF_A_STUDY.items() for name in names if lab != "nagle"],
)
def test_a_chart_of_a_study_is_drawn_of_no_run(lab: str, name: str) -> None:
    study = golden.studies(lab)[0]  # those of nagle are of conditions that it must have
    folder, found = study.runs[0].path.parent, find(lab)
    empty = Study(found.Parameters(testbed="recorded"), (), folder, None, False, lab=found)
    figure = getattr(getattr(labs.charts, lab), name)(empty)
    assert not figure.data and figure.layout.meta["tell"]


BOUNDED = [
    (lab, name, end)
    for lab in LABS
    for name, parameter in declared(find(lab).Parameters).items()
    for end in (parameter.low, parameter.high)
    if end is not None
]


@pytest.mark.parametrize(("lab", "name", "end"), BOUNDED)
def test_a_parameter_refuses_what_is_out_of_range(lab: str, name: str, end: float) -> None:
    """In one line, with the parameter and the bound."""
    parameter = declared(find(lab).Parameters)[name]
    beyond = end - 1 if end == parameter.low else end + 1
    with pytest.raises(BadInput) as error:
        check(find(lab).Parameters, {name: parameter.kind(beyond)})
    assert name in str(error.value) and "allowed: " in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("lab", LABS)
def test_a_parameter_refuses_what_is_no_choice_or_has_no_name(lab: str) -> None:
    parameters = find(lab).Parameters
    for name, parameter in declared(parameters).items():
        if parameter.choices:
            with pytest.raises(BadInput, match="allowed"):
                check(parameters, {name: "none-such"})
    with pytest.raises(BadInput):
        check(parameters, {"no_such_parameter": 1})


@pytest.mark.parametrize("lab", ["queues", "sharing"])
def test_every_condition_with_chance_that_is_judged_is_drawn(lab: str) -> None:
    """By the plan of the recorded draws."""
    patterns = {name for claim in article(lab).claims for name in claim.conditions}
    plan = yaml.safe_load((ROOT / "docs" / f"draws-{lab}.yaml").read_text())
    every = find(lab).conditions(find(lab).Parameters(size="full"))
    named = [each for each in every if any(fnmatchcase(each.name, name) for name in patterns)]
    assert {each.name for each in named if chance(each)} == set(plan["ONLY"].split(","))
