"""The verdict on a claim: a word, the figures that it is based on, and its witnesses.

One judging function gives a verdict on the runs of one testbed and one kernel series.
`composition` puts those of all testbeds and kernels together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from labs.read.claims.figures import describe_with_range, reduced
from labs.read.claims.judged_runs import JudgedRuns
from labs.read.claims.ledger import Figure, has_number, tolerance_in_words
from labs.read.display.format import figures_in_words
from labs.read.theory.kernels import series

HOLDS = "holds"
DIFFERS = "differs"
WRONG = "wrong"
RIGHT_NUMBER = "right number, wrong reason"
"""Only for a claim that has a number."""
BY_SOURCE = "holds on its kernel (by its source), not since"
"""The source of the article's kernel gives the figure exactly; the measured kernels do not."""
UNDECIDED = "undecided"
"""Draws of chance, or the range that the article gives, fall on both sides of the limit; or of at
least five draws some could not be judged."""
HARDWARE = "hardware"
NOT_JUDGED = "not judged"
DISPUTED = "disputed"
"""Two testbeds disagree: never what one judging function says, so none of `WORDS`."""

NO_WORD = (NOT_JUDGED, HARDWARE)
FEWEST_DRAWS = 5
"""A claim with chance is judged by at least so many draws."""
WORDS = (HOLDS, DIFFERS, WRONG, RIGHT_NUMBER, BY_SOURCE, UNDECIDED, HARDWARE, NOT_JUDGED)
LEAST_FACTOR = 0.01
"""A smaller factor says no more than the measured figure."""


@dataclass(frozen=True)
class Witness:
    """What a verdict is based on: the testbed and the kernel of the runs."""

    testbed: str
    kernel: str

    def __str__(self) -> str:
        return f"{self.testbed} · Linux {self.kernel}" if self.kernel else self.testbed


AND = ", "
"""Separates the testbeds, or the kernels, of a joint witness."""
MOST_WORDS = 25
CLAUSE = re.compile(r"(?<=[.;])\s+")
MORE = "\N{HORIZONTAL ELLIPSIS}"
ENDS = ".,;:"


def together(witnesses: Iterable[Witness | None]) -> Witness | None:
    """All testbeds and all kernels as one witness, the oldest kernel first; None without any."""
    every = [witness for witness in witnesses if witness is not None]
    if not every:
        return None
    testbeds, kernels = (
        dict.fromkeys(
            name for witness in every for name in getattr(witness, part).split(AND) if name
        )
        for part in ("testbed", "kernel")
    )
    return Witness(AND.join(testbeds), AND.join(sorted(kernels, key=series)))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a judging function: the word, the reason, and the figures.

    `factor` is the measured figure divided by the article's, only for `differs`. `judged` is
    the number of the claim's figures that were judged, if not all of them. ValueError for an
    unknown word, or one without its reason, or a factor of another word: a mistake in the code.
    """

    verdict: str
    reason: str
    measured: Figure | None = None
    predicted: Figure | None = None
    factor: float | None = None
    judged: int | None = None
    witness: Witness | None = None

    def __post_init__(self) -> None:
        if self.verdict not in WORDS:
            raise ValueError(f"{self.verdict!r} is not a verdict")
        if not self.reason:
            raise ValueError(f"a verdict needs its reason: {self.verdict}")
        if self.factor is not None and self.verdict != DIFFERS:
            raise ValueError(f"a factor goes only with {DIFFERS!r}: {self.verdict}")


@dataclass(frozen=True)
class Note:
    """Why kernels differ on a claim, and the commits: `changed` and `source` of the ledger."""

    changed: str
    source: str

    def __str__(self) -> str:
        return f"{self.changed} ({self.source})" if self.source else self.changed


@dataclass(frozen=True)
class Draws:
    """How many draws were judged, from which seeds, and the range of their figures."""

    count: int
    low: Figure | None
    high: Figure | None
    seeds: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim of an article, and the verdict of the runs on it.

    `expected` is the article's figure, `predicted` the theory's, `measured` the runs', all in
    `unit`; None where there is none. `witness` is None if there was no run to judge.
    `tolerance_pct` is how far a figure may deviate from the article's, and `tolerance_reason` why.
    `conditions` and `link` say which runs were judged, `runs` where they are, and `behind` which
    they are; `judged` is how many of the article's `figures` were judged.

    `chance` says why the figure depends on chance, if it does; `drawn` are then the verdicts of the
    single draws, each with its `seed`, and `measured` is the median of those that are judged.

    `witnesses` are the verdicts of the testbeds and kernels that say so, if there are several.
    Where these differ, `parts` has one verdict for those that agree, each with its place in
    `where`, and `note` says why kernels differ.
    """

    id: str
    statement: str
    expected: Figure
    unit: str
    tolerance_pct: float | None
    tolerance_reason: str
    predicted: Figure | None
    measured: Figure | None
    verdict: str
    factor: float | None
    reason: str
    conditions: str
    link: str
    figures: int
    judged: int
    witness: Witness | None
    runs: str = ""
    behind: JudgedRuns | None = None
    where: str = ""
    note: Note | None = None
    chance: str = ""
    seed: int = 0
    drawn: tuple[Verdict, ...] = ()
    witnesses: tuple[Verdict, ...] = ()
    parts: tuple[Verdict, ...] = ()

    @property
    def words(self) -> str:
        """The verdict with its factor and its place: `differs (factor 1.24) on Linux 6.12`."""
        return self.kind + (f" on {self.where}" if self.where else "")

    @property
    def kind(self) -> str:
        """The verdict with its factor, if the claim has a number and the factor says something."""
        if self.factor is None or self.factor < LEAST_FACTOR or not has_number(self.expected):
            return self.verdict
        return f"{self.verdict} (factor {self.factor:.2f})"

    @property
    def draws(self) -> Draws | None:
        """The number and the range of the judged draws; None where no chance was judged."""
        judged = [draw for draw in self.drawn if draw.is_judged]
        if not judged:
            return None
        figures = [draw.measured for draw in judged]
        seeds = tuple(sorted({draw.seed for draw in judged}))
        return Draws(len(figures), reduced(min, figures), reduced(max, figures), seeds)

    @property
    def measured_in_words(self) -> str:
        """The measured figure, with the range of the draws if there are any; empty for none."""
        draws = self.draws
        if draws is None or self.measured is None:
            return figures_in_words(self.measured)
        return describe_with_range(self.measured, (draws.low, draws.high), draws.count)

    @property
    def testbeds(self) -> tuple[str, ...]:
        """The testbeds of all witnesses."""
        return () if self.witness is None else tuple(self.witness.testbed.split(AND))

    @property
    def rows(self) -> Sequence[Verdict]:
        """One verdict, or one for each of the kernels or testbeds that differ."""
        return self.parts or (self,)

    @property
    def single(self) -> Sequence[Verdict]:
        """The verdicts of one testbed and one kernel series each that this one is composed of."""
        return [verdict for part in self.rows for verdict in (part.witnesses or (part,))]

    @property
    def because(self) -> str:
        """The reason in a few words; `evidence` has all of it."""
        return in_few_words(self.reason if self.note is None else self.note.changed)

    @property
    def is_judged(self) -> bool:
        return self.verdict not in NO_WORD

    @property
    def is_known(self) -> bool:
        """Whether it is informative: a verdict, or a measured figure of hardware."""
        return self.is_judged or (self.verdict == HARDWARE and self.measured is not None)

    @property
    def basis(self) -> str:
        """What was judged: conditions and link, and how many of the article's figures."""
        where = "; ".join(filter(None, (self.conditions, self.link)))
        several = f"{self.judged} of {self.figures} figures" if self.figures > 1 else ""
        return ". ".join(filter(None, (where, several)))

    @property
    def tolerance(self) -> str:
        """The tolerance with its reason; empty where nothing is compared within one."""
        if self.tolerance_pct is None:
            return ""
        return f"{tolerance_in_words(self.tolerance_pct)}: {self.tolerance_reason}"

    @property
    def evidence(self) -> tuple[str, ...]:
        """What is behind the verdict, in lines: the reason of each witness with its figures, equal
        ones once; what was judged; the tolerance; why kernels differ."""
        note = [] if self.note is None else [str(self.note)]
        if self.parts:
            lines = [line for part in self.parts for line in (part.words, *part.evidence)]
            return (*lines, *(line for line in note if line not in lines))
        every, phrases = self.witnesses or (self,), dict[str, list[Witness | None]]()
        for verdict in every:
            same = verdict.measured is None or verdict.measured == self.measured
            figures = "" if same else f"{verdict.measured_in_words} ({verdict.unit}): "
            phrases.setdefault(f"{figures}{verdict.reason}", []).append(verdict.witness)
        # No witness says that testbeds disagree, or what draws say together.
        of_draws = self.drawn and self.witnesses and self.verdict != NOT_JUDGED
        basis = dict.fromkeys(verdict.basis for verdict in every if verdict.is_known)
        return (
            *([self.reason] if of_draws or self.verdict == DISPUTED else []),
            *(f"{together(by)}: {text}" if any(by) else text for text, by in phrases.items()),
            *(f"Judged on: {text}" for text in basis if text),
            *([f"Tolerance: {self.tolerance}"] if self.tolerance else []),
            *note,
        )

    def _figures(self) -> dict[str, Any]:
        told = ("verdict", "factor", "predicted", "measured")
        return {name: getattr(self, name) for name in told} | {"draws": _plain(self.draws)}

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain data, with the evidence in lines, and `witnesses`: the verdict of
        each testbed and kernel, with the digests of its runs."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in ("where", "behind", "seed", "drawn"):
            del plain[name]
        return plain | {
            **self._figures(),
            "witness": _plain(self.witness),
            "because": self.because,
            "evidence": list(self.evidence),
            "note": None if self.note is None else str(self.note),
            "parts": [
                {
                    "where": part.where,
                    **part._figures(),
                    "because": part.because,
                    "witness": _plain(part.witness),
                }
                for part in self.parts
            ],
            "witnesses": [
                {
                    **asdict(item.witness),
                    **item._figures(),
                    "runs": item.behind and item.behind.as_json(),
                }
                for item in self.single
                if item.witness is not None
            ],
        }


def _plain(value: Draws | Witness | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)


def in_few_words(text: str, most: int = MOST_WORDS) -> str:
    """The first clauses of a text, at most so many words. If the first one is longer, its beginning
    and an ellipsis, up to a comma, a colon or a parenthesis if there is one in its second half."""
    words = text.split()
    if len(words) <= most:
        return text
    kept, count = list[str](), 0
    for clause in CLAUSE.split(text):
        count += len(clause.split())
        if count > most:
            break
        kept.append(clause)
    if kept:
        return " ".join(kept).rstrip(ENDS)
    ends = [
        at
        for at in range(most // 2, most)
        if words[at - 1].endswith((",", ":")) or words[at].startswith("(")
    ]
    return f"{' '.join(words[: ends[-1] if ends else most - 1]).rstrip(ENDS)} {MORE}"
