"""Write the students' copies of notebooks: without solutions and outputs, with cells for answers.

An edited copy is never overwritten; the command reports that it was kept.

    labs student notebooks/*.ipynb --recorded              no kernel is needed
    labs student notebooks/*.ipynb --set KERNEL=6.12 --link 100x40
    labs student notebooks/00-start-here.ipynb --recorded --nbgrader --into source/start

With --nbgrader, the copies are source notebooks for `nbgrader generate_assignment`. The commands
are in docs/jupyterhub.md.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from labs.cli.command import DRY_RUN, Answer, arg

ARGUMENTS = (
    arg("NOTEBOOK...", "notebooks with solutions", Path),
    arg("--into DIR", "the folder for the copies", Path, Path("student")),
    arg("--recorded", "copies that show recorded runs and need no kernel"),
    arg("--set NAME=VALUE...", "set a parameter in each notebook that has it; may be repeated"),
    arg("--link RATExDELAY", "set rate (Mbit/s) and delay (ms) of the link: 100x40"),
    arg("--nbgrader", "write nbgrader source notebooks, with a graded cell per question"),
    DRY_RUN,
)


def main(args: Namespace) -> Answer:
    """Write the copies and say what happened to each. Raises LabError."""
    from labs.grading.student_copy import copy_for_students, read_presets

    recorded = ["TESTBED=recorded"] if args.recorded else []
    presets = read_presets([*recorded, *args.set], args.link, args.notebook)
    done = [
        copy_for_students(
            notebook, args.into, presets, nbgrader=args.nbgrader, dry_run=args.dry_run
        )
        for notebook in args.notebook
    ]
    return Answer(
        [{"path": str(copied.path), "outcome": copied.outcome} for copied in done],
        "\n".join(copied.words for copied in done),
    )
