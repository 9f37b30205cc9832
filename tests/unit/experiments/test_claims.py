"""What every claim of every lab keeps to, on the recorded runs: a verdict has a reason in one line
and a witness, and with other figures, or with the runs of other conditions, it is another one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find, with_ledgers
from labs.experiments.stack import claims as of_stack
from labs.read.claims.evidence import Evidence, recorded_draws
from labs.read.claims.judge import check_columns, judge, judges_of, split_reference
from labs.read.claims.ledger import Article, Claim, read
from labs.read.claims.sources import recorded_sources
from labs.read.claims.verdict import NO_WORD, Verdict
from labs.read.lab import Lab
from labs.read.stats.repetitions import Interval

TRIES = 400
PAIRS = 40
"""Pairs of conditions that change places, at most."""
Change = Callable[[float], float]
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


class ChangedRow(Mapping[str, Any]):
    """A row of results with other figures in some of its columns."""

    def __init__(self, row: Mapping[str, Any], other: Mapping[str, Change]) -> None:
        self._row, self._other = row, other

    def __getitem__(self, name: str) -> Any:
        value = self._row[name]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return self._other[name](value) if number and name in self._other else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)


class Changed(Evidence):
    """Evidence in which conditions have the runs of others, by name, or other figures."""

    def __init__(
        self,
        seen: Evidence,
        places: Mapping[str, str],
        figures: Mapping[str, Mapping[str, Change]] | None = None,
    ) -> None:
        self.__dict__.update(vars(seen))
        self._seen, self._places = seen, places
        self.runs = {name: seen.runs[self.place(name)] for name in seen.runs}
        self.rows = {
            name: ChangedRow(seen.row(self.place(name)), (figures or {}).get(name, {}))
            for name in seen.rows
        }

    def place(self, name: str) -> str:
        return self._places.get(name, name)

    def ratio(self, over: str, under: str, column: str) -> Interval | None:
        return self._seen.ratio(self.place(over), self.place(under), column)


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


def evidence(lab: str) -> Iterator[Evidence]:
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
    for seen in evidence(lab.name):
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
    assert not different, f"{id_} is {different} with all figures"


@pytest.mark.parametrize("lab", [pytest.param(lab, id=lab.name) for lab in with_ledgers()])
def test_columns_and_judging_functions_of_the_claims_exist_and_are_used(lab: Lab) -> None:
    check_columns(lab, article(lab.name))
    assert {claim.judge for claim in article(lab.name).claims} - {None} == set(judges_of(lab))


def test_few_claims_need_a_judging_function() -> None:
    assert sum(len(judges_of(lab)) for lab in with_ledgers()) <= 20
