"""A run as a row of a table: the results of its lab, and where the run comes from."""

from __future__ import annotations

from typing import Any

from labs.drive.result_columns import Note
from labs.errors import LabError
from labs.read.display.provenance import asked_of
from labs.read.lab import Lab
from labs.read.run_results import Found
from labs.read.runs.run import Run
from labs.read.stats.machines import disturbances

UNUSED = "unused_parameter"
"""The code of the note that a condition does not use a parameter."""
NO_RESULTS = "no_results"
"""The code of the note that a reader's own lab cannot compute results from a run."""


def results_of(lab: Lab, run: Run) -> Found:
    """The results of a run; none, and the reason as a note, if a reader's own lab has none."""
    try:
        return lab.results(run)
    except LabError as error:
        if lab.source is None:
            raise
        return Found(dict.fromkeys(lab.columns), (Note(NO_RESULTS, str(error)),))


def result_row(
    run: Run, results: Found, *, group: str, source: str, unused: str = ""
) -> dict[str, Any]:
    """The row of a run with these results. `notes` are joined with "; ", their codes with " ".

    `unused` says which parameters the condition does not use, if there are any.
    """
    notes = [note.text for note in results.notes]
    disturbed = [f"disturbed: {what}" for what in disturbances(run)]
    remarks = [unused] if unused else []
    codes = [note.code for note in results.notes if note.code] + [UNUSED] * len(remarks)
    return {
        "condition": run.condition,
        "group": group,
        **results.values,
        "notes": "; ".join([*notes, *disturbed, *remarks]),
        "note_codes": " ".join(codes),
        "testbed": run.testbed,
        "kernel": run.kernel.release,
        "source": source,
        "rtt_ms": run.measured.rtt_ms,
        "rate_mbit": run.measured.rate_mbit,
        "link": run.link.verdict,
        "link_ok": run.link.ok,
        "link_asked": asked_of(run),
        "link_shaped": run.link.asked.shaped,
        "key": run.key,
        "digest": run.digest,
    }
