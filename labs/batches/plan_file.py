"""Plans of batches: `read_plan` checks a file and returns its points.

A plan is YAML or JSON. Names in capitals are parameters, exactly as in a file for papermill's `-f`,
so such a file is a plan with one point. Names in lower case are keys of the plan::

    lab: buffers                          # or a file ./mylab.py, or notebook: NAME.ipynb
    RATE_MBIT: 100                        # one value
    DELAY_MS: [10, 50, 200]               # a list of values: an axis
    BUFFER_MIB: {from: 0.1, to: 50, steps: 12, scale: log}
    KERNEL: ["6.1", "7.2"]
    zip: [[DELAY_MS, TRANSFER_MIB]]       # axes that advance together; all others form a product
    exclude: [{KERNEL: "7.2", DELAY_MS: {from: 100}}]
    repetitions: 3                        # or seeds: [1, 5, 9]

In virtual time a repeated run is identical to the byte, so a repetition is a run with another seed:
`repetitions: 3` means the seeds SEED, SEED + 1 and SEED + 2, and `seeds` lists them. Relative paths
are resolved in the plan's folder first, then in the current one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from labs.batches.axes import SEED, SEEDS, Axes, axes_of
from labs.batches.plan_source import PlanSource, check_shape, read_source
from labs.batches.points import Grid, Point
from labs.batches.subject import LAB, NOTEBOOK, Subject, beside, lab_subject, notebook_subject
from labs.drive.parameters.declare import LabParameters, shown
from labs.errors import LabError

MOST_POINTS = 1_000_000
"""The maximum number of points of a product, before exclusions."""


@dataclass(frozen=True)
class PlanFile:
    """A checked plan: its subject and its points."""

    path: Path
    subject: Subject
    grid: Grid
    axes: Axes = field(repr=False)

    @property
    def count(self) -> int:
        """The number of points."""
        return self.grid.count

    @property
    def points(self) -> Iterator[Point]:
        """The points, in the order of the file; the last axis varies fastest."""
        return iter(self.grid)

    @property
    def varied(self) -> tuple[str, ...]:
        """The notebook names of the parameters with several values, in the order of the axes."""
        return tuple(
            name
            for dimension in self.grid.dimensions
            if len(dimension.rows) > 1
            for name in dimension.names
        )

    def parameters_of(self, point: Point) -> LabParameters:
        """The lab's parameters at a point; BadInput, worded by `refusal`, for a combination of
        values that the lab refuses."""
        try:
            return self.subject.with_values(point.values)
        except LabError as error:
            raise self.refusal(point, error) from error

    def refusal(self, point: Point, error: LabError) -> LabError:
        """An error at a point, with the plan's name, a line, and the point's varied values."""
        names = self.varied
        values = ", ".join(f"{name} = {shown(point.values[name])}" for name in names)
        text = f"point {point.number}{f' ({values})' if values else ''}: {error}"
        return self.axes.source.located(type(error)(text), *map(self.axes.key, names[:1]))


def read_plan(
    path: Path, *, subject: str | None = None, most_points: int = MOST_POINTS
) -> PlanFile:
    """Read and check a plan; `subject` names the lab or the notebook if the plan does not.

    BadInput, in one line with the plan's name and line, for every problem in it. Nothing is
    executed, except a lab in a file of the user's own.
    """
    source = read_source(path)
    check_shape(source)
    about = _subject(source, subject)
    axes = axes_of(source, about)
    return PlanFile(path, about, axes.grid(most_points), axes)


def _subject(source: PlanSource, given: str | None) -> Subject:
    """The subject that the plan or the caller names."""
    named = [key for key in (LAB, NOTEBOOK) if key in source.content]
    if len(named) > 1:
        raise source.complaint("lab and notebook are both given. Remove one", NOTEBOOK)
    if named and given is not None:
        raise source.complaint(
            f"the plan names a {named[0]}, and {given} was given in addition. Remove one", *named
        )
    if named:
        try:
            about = _loaded(str(source.content[named[0]]), named[0], source.path.parent)
        except LabError as error:
            raise source.located(error, *named) from error
    elif given is not None:
        about = _loaded(given, NOTEBOOK if given.endswith(".ipynb") else LAB, None)
    else:
        raise source.complaint(
            "the plan names neither a lab nor a notebook. Add a line such as lab: buffers, or "
            "use --of"
        )
    seeds = {SEED} if SEEDS in source.content else set()
    for name in about.computed:
        if name not in source.content.keys() | seeds:
            raise source.complaint(
                f"{name} in the parameters cell of {about.name} is not a single literal. Give "
                f"{name} in the plan",
                *named,
            )
    return about


def _loaded(name_or_path: str, kind: str, folder: Path | None) -> Subject:
    if kind == NOTEBOOK:
        return notebook_subject(beside(name_or_path, folder))
    return lab_subject(name_or_path, folder)
