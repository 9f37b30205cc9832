"""The verdict on a claim: a word, the figures that it is based on, and its witnesses.

One judging function gives a verdict on the runs of one testbed and one kernel series.
`composition` puts those of all testbeds and kernels together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from labs.drive.record.seal import canonical, digest
from labs.read.claims.ledger import Figure, as_figure, by_name, has_number, tolerance_in_words
from labs.read.display.format import counted, figures_in_words, printable
from labs.read.runs.archive import origin
from labs.read.runs.run import Run
from labs.read.theory.kernels import series

Range = tuple[Figure | None, Figure | None]
"""From a lower to an upper figure."""
ALIKE_PCT = 5.0
"""How far figures are apart that are shown as one."""


def _are_numbers(values: Sequence[object]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def reduced(by: Callable[[list[float]], float], figures: Sequence[Figure | None]) -> Figure | None:
    """Several figures as one, name by name; without a text that is not the same in all."""
    every = [by_name(figure) for figure in figures]
    result = {}
    for name in every[0]:
        values: list[Any] = [figure.get(name) for figure in every]
        if _are_numbers(values):
            result[name] = by(list(map(float, values)))
        elif len(set(values)) == 1:
            result[name] = values[0]
    return as_figure(result)


def alike(
    first: Figure | None, second: Figure | None, expected: Figure | None = None, spare: float = 0.0
) -> bool:
    """Whether two figures are so close, compared with the largest of them and of the article's,
    that one stands for both; `spare` apart they always are, and nothing is like anything. Of
    several figures those with the same name are compared."""

    def close(*values: Any) -> bool:
        numbers = [value for value in values if isinstance(value, int | float)]
        if not _are_numbers(values[:2]):
            return bool(values[0] == values[1])
        most: float = max(spare, ALIKE_PCT / 100 * max(map(abs, numbers)))
        return bool(abs(values[0] - values[1]) <= most)

    if first is None or second is None:
        return True
    one_side, other, wanted = by_name(first), by_name(second), by_name(expected)
    common = one_side.keys() & other.keys()
    return all(close(one_side[name], other[name], wanted.get(name)) for name in common)


def overlap(first: Range, second: Range) -> bool:
    """Whether two ranges have a value in common; of several figures, each of them."""
    (low, high), (least, most) = (map(by_name, ends) for ends in (first, second))
    common = low.keys() & least.keys()
    return not any(
        _above(low[name], most[name]) or _above(least[name], high[name]) for name in common
    )


def _above(first: Any, second: Any) -> bool:
    """Whether a number is above another, or a text is another one."""
    return bool(first > second if _are_numbers((first, second)) else first != second)


def describe_with_range(middle: Figure, ends: Range, count: int) -> str:
    """The median of draws with their range: `0.79 (0.74 to 0.81, 5 draws)`."""
    low, high = map(by_name, ends)
    spans = {name: _span(low[name], high[name]) for name in low}
    if not isinstance(middle, Mapping):
        told = ", ".join(filter(None, [spans[""], counted(count, "draw")]))
        return f"{figures_in_words(middle)} ({told})"
    each = [
        f"{printable(name)}: {figures_in_words(value)}{spans[name] and f' ({spans[name]})'}"
        for name, value in middle.items()
    ]
    return f"{', '.join(each)} ({counted(count, 'draw')})"


def _span(low: Figure, high: Figure) -> str:
    """`0.74 to 0.81`; empty if both are the same in words."""
    ends = [figures_in_words(low), figures_in_words(high)]
    return " to ".join(ends) if ends[0] != ends[1] else ""


HOW_MUCH = frozenset({"size", "only", "repetitions_min", "repetitions_max", "ci_width_pct"})
"""Parameters that say how much is run, and not how: studies that differ in nothing else belong
together."""
PERFORMED_BY = ("kernels", "code", "tools")
DIGITS = 12
"""Of a digest: as many as the name of a run has of its key."""


@dataclass(frozen=True)
class JudgedRuns:
    """The runs of one testbed and one kernel series.

    `conditions` has, by condition, the digest of its runs; two sides with equal digests have runs
    that are the same byte for byte. `kernels`, `code` and `tools` are the digests of what performed
    them, `parameters` those of their study, `files` the packed files that contain them.
    """

    lab: str
    count: int
    conditions: Mapping[str, str]
    parameters: Mapping[str, object]
    kernels: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The identity of the runs as plain data; where they are kept is not part of it."""
        plain = {"count": self.count, "conditions": dict(self.conditions)}
        return plain | {name: list(getattr(self, name)) for name in PERFORMED_BY}


def judged_runs(runs: Iterable[Run], parameters: Mapping[str, object]) -> JudgedRuns | None:
    """What identifies these runs of one study; None without runs."""
    every = list(runs)
    if not every:
        return None
    by_condition: dict[str, list[str]] = {}
    for run in every:
        by_condition.setdefault(run.condition, []).append(run.digest)
    inputs = [run.inputs for run in every]
    return replace(
        of_digests(every[0].lab, by_condition, parameters, ""),
        kernels=_distinct(of_run["kernel"] for of_run in inputs),
        code=_distinct(of_run.get("code") for of_run in inputs),
        tools=_distinct((of_run.get("tools"), of_run.get("libraries")) for of_run in inputs),
        files=tuple(dict.fromkeys(origin(run.path).name for run in every)),
    )


def of_digests(
    lab: str, digests: Mapping[str, Sequence[str]], parameters: Mapping[str, object], file: str
) -> JudgedRuns:
    """What identifies runs of which only the digests are kept, in a file."""
    conditions = {name: _digest(sorted(some)) for name, some in digests.items()}
    count = sum(map(len, digests.values()))
    return JudgedRuns(lab, count, conditions, parameters, files=(file,))


def of_several(every: Sequence[JudgedRuns]) -> JudgedRuns | None:
    """What identifies the runs of several draws on one kernel; None without any."""
    if len(every) < 2:
        return every[0] if every else None
    digests: dict[str, list[str]] = {}
    for name, runs in [pair for judged in every for pair in judged.conditions.items()]:
        digests.setdefault(name, []).append(runs)
    joined: dict[str, Any] = {
        part: tuple(sorted({name for judged in every for name in getattr(judged, part)}))
        for part in (*PERFORMED_BY, "files")
    }
    conditions = {name: _digest(sorted(some)) for name, some in digests.items()}
    count = sum(judged.count for judged in every)
    return replace(every[0], count=count, conditions=conditions, **joined)


def but_how_much(parameters: Mapping[str, object]) -> dict[str, object]:
    """The parameters that are equal in studies whose runs are judged together."""
    return {name: value for name, value in parameters.items() if name not in HOW_MUCH}


def _digest(of: object) -> str:
    return digest(canonical(of))[:DIGITS]


def _distinct(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted({_digest(value) for value in values}))


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
