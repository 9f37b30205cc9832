"""What is said of a claim: a word, the figures that it rests on, and the witness."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from labs.read.claims.ledger import Figure

HOLDS = "holds"
DIFFERS = "differs"
WRONG = "wrong"
HARDWARE = "hardware"
NOT_JUDGED = "not judged"
DISPUTED = "disputed"
"""Two witnesses part on it: never what one judging function says, so none of `WORDS`."""
HELD_UNTIL = "held until kernel"

WORDS = (HOLDS, DIFFERS, WRONG, HARDWARE, NOT_JUDGED)
_HELD = re.compile(rf"{HELD_UNTIL} \d{{1,4}}\.\d{{1,4}}", re.ASCII)


def held_until(series: str) -> str:
    """The verdict on what was so up to a kernel series: `held until kernel 6.5`."""
    return f"{HELD_UNTIL} {series}"


@dataclass(frozen=True)
class Witness:
    """What the verdict rests on: the testbed and the kernel of the runs."""

    testbed: str
    kernel: str

    def __str__(self) -> str:
        return f"{self.testbed} · Linux {self.kernel}" if self.kernel else self.testbed


ARITHMETIC = Witness("arithmetic", "")
"""For what is computed, and no run is needed for."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a judging function says: the word, why, and the figures.

    `factor` is how many times the article's figure was measured, for `differs` alone. ValueError
    for a word that there is not, or one without its reason or its factor: a mistake in the code.
    """

    verdict: str
    reason: str
    measured: Figure | None = None
    predicted: Figure | None = None
    factor: float | None = None
    witness: Witness | None = None

    def __post_init__(self) -> None:
        if self.verdict not in WORDS and not _HELD.fullmatch(self.verdict):
            raise ValueError(f"{self.verdict!r} is not a verdict")
        if not self.reason or "\n" in self.reason:
            raise ValueError(f"a verdict needs its reason in one line: {self.verdict}")
        if (self.factor is None) == (self.verdict == DIFFERS):
            raise ValueError(f"a factor goes with {DIFFERS!r}, and only with it: {self.verdict}")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim of an article and what the runs say of it.

    `expected` is the article's figure, `predicted` the theory's, `measured` the runs', all in
    `unit`; None where there is none. `witness` is None if there was no run to look at.
    `tolerance_pct` is how far a figure may lie from the article's, and `tolerance_reason` why.
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
    witness: Witness | None

    @property
    def words(self) -> str:
        """The verdict with its factor: `differs (factor 1.24)`."""
        return (
            self.verdict if self.factor is None else (f"{self.verdict} (factor {self.factor:.2f})")
        )

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        return asdict(self)
