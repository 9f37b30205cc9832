"""The runs that `labs claims --seeds N` performs: of each claim with chance, N draws of its
conditions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from labs.cli.command import DRY_RUN, JOBS, Answer, arg
from labs.cli.run_grid import describe_preview, preview, worst
from labs.drive.kernel.versions import DEFAULT
from labs.drive.parameters.declare import LabParameters, check
from labs.errors import BadInput

if TYPE_CHECKING:
    from labs.read.claims.ledger import Article
    from labs.read.lab import Lab

WITH_SEEDS = ("kernel", "into", "dry_run", "jobs")
"""The flags that are used only with --seeds."""
ARGUMENTS = (
    arg(
        "--seeds N",
        "perform the missing draws, seeds 1 to N, of the selected claims that depend on chance; "
        "then judge (a verdict needs 5)",
        int,
        least=1,
    ),
    arg("--kernel K,K", f"the kernels of the draws (default: {DEFAULT})"),
    arg("--into DIR", "the folder of the draws (default: runs)"),
    DRY_RUN,
    JOBS,
)


def check_flags(args: Namespace) -> None:
    """BadInput for flags that would not be used."""
    if args.seeds is None:
        if unused := [name for name in WITH_SEEDS if getattr(args, name)]:
            raise BadInput(f"--{unused[0].replace('_', '-')} is used only with --seeds. Omit it")
        return
    if args.source is not None:
        raise BadInput("--seeds judges the draws of --into. Omit --from")
    if args.lab is None and args.article is None and not args.id:
        raise BadInput("--seeds needs a selection of claims. Name a LAB, --article or --id")


def wanted(
    args: Namespace, chosen: Sequence[tuple[Lab, Article]]
) -> list[tuple[Lab, LabParameters]]:
    """The parameters of the draws, per lab. BadInput if no selected claim has chance."""
    to_draw = []
    for lab, article in chosen:
        names = list(dict.fromkeys(_drawn(lab, article, args.id)))
        if names:
            values = {"size": "full", "only": ",".join(names), "kernel": args.kernel or DEFAULT}
            values |= {"runs": args.into} if args.into else {}
            to_draw.append((lab, check(lab.Parameters, values)))
    if not to_draw:
        raise BadInput("none of the selected claims depends on chance. Omit --seeds")
    return to_draw


def perform(args: Namespace, draws: Sequence[tuple[Lab, LabParameters]]) -> None:
    """Perform the missing draws; an error of the first kind if one failed."""
    from labs.launch.wanted import Wanted
    from labs.studies.grid import grid_of

    for _, p in draws:
        if error := worst(grid_of(p, _seeds(args), Wanted(jobs=args.jobs))):
            raise error


def outline(args: Namespace, draws: Sequence[tuple[Lab, LabParameters]]) -> Answer:
    """The runs that would be performed, and how many of them exist."""
    previews = [preview(lab, p, _seeds(args)) for lab, p in draws]
    return Answer(previews, "\n\n".join(map(describe_preview, previews)))


def _seeds(args: Namespace) -> dict[str, tuple[int, ...]]:
    return {"seed": tuple(range(1, args.seeds + 1))}


def _drawn(lab: Lab, article: Article, ids: Collection[str]) -> Iterator[str]:
    """The conditions that the claims with chance need, of all claims or of those with these ids."""
    from labs.read.claims.composition import chance_of

    conditions = {
        condition.name: condition for condition in lab.conditions(lab.Parameters(size="full"))
    }

    def like(patterns: Sequence[str]) -> list[str]:
        return [
            name for name in conditions if any(fnmatchcase(name, pattern) for pattern in patterns)
        ]

    for claim in article.claims:
        is_selected = (not ids or claim.id in ids) and not claim.hardware
        if is_selected and chance_of(conditions[name] for name in like(claim.conditions)):
            yield from like(claim.needed)
