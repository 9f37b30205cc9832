"""The judging functions of the second part of article 6: flows that share a link."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from labs.read.claims.bounds import at_least, at_most, limited, ratio
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import Finding
from labs.read.display.format import in_digits

FEWEST = 4
"""A median error needs at least so many buffers."""


def median_error(claim: Claim, seen: Evidence) -> Finding:
    """The median deviation of the share from its prediction, in % of the link."""
    rows = [(name, seen.row(name)) for name in seen.matching(*claim.conditions)]
    errors = {
        name: abs(row["share_pct"] - row["predicted_share_pct"])
        for name, row in rows
        if row["share_pct"] is not None and row["predicted_share_pct"] is not None
    }
    if len(errors) < FEWEST:
        return not_judged(f"needs at least {FEWEST} buffers; there are {len(errors)}")
    said = ", ".join(f"{name.rpartition('-')[2]} {in_digits(one)}" for name, one in errors.items())
    return limited(claim, median(errors.values()), above=True, reason=said)


JUDGES: Mapping[str, Judge] = {
    "at_least": at_least,
    "at_most": at_most,
    "ratio": ratio,
    "median_error": median_error,
}
