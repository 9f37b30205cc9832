"""The artifact appendix that reviewers ask for: set-up, major claims with their cost, and badges.

At most two printed pages of Markdown for the ledgers of the project. It quotes the project's
Dockerfile, and the packages of setup/system.sh that it installs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ruamel.yaml import YAML

from labs.errors import BadInput, Missing
from labs.publish.bundle_contents import CLONE
from labs.publish.repeat_command import of_conditions
from labs.read.claims.ledger import Article, Claim
from labs.read.claims.verdict import NOT_JUDGED, Verdict
from labs.read.display.format import printable, size_in_words
from labs.read.lab import Lab
from labs.read.runs.costs import Estimate, median_of, name_of, samples_of

SYSTEM, CITATION, DOCKERFILE = "setup/system.sh", "CITATION.cff", "Dockerfile"
NEEDED = re.compile(r'^NEEDED="\n(.*?)\n"', re.DOTALL | re.MULTILINE)
BESIDE = ("ca-certificates", "python3-venv")
"""Packages that setup/system.sh expects: certificates for downloads, and Debian's venv."""
RUNS = "evaluation"
UNKNOWN = "not recorded"
HEADS = ("Claim", "Verdict", "Command, before the check below", "Time", "Disk")


@dataclass(frozen=True)
class Row:
    """A major claim, its verdict, the command that performs its runs, and what that costs."""

    claim: Claim
    verdict: str
    command: str
    needs_root: bool
    cost: Estimate


def rows_of(
    judged: Iterable[tuple[Lab, Article, Sequence[Verdict]]], places: Sequence[Path]
) -> list[Row]:
    """One row per major claim whose conditions the lab has; of a ledger that marks none, every one.

    The costs are those of runs in these folders, one after the other. BadInput if there is no row.
    """
    rows = []
    for lab, article, verdicts in judged:
        known_verdicts = {verdict.id: verdict for verdict in verdicts}
        samples = samples_of(lab.name, places, name_of)
        full = lab.Parameters(size="full")
        conditions = [condition.name for condition in lab.conditions(full)]
        claims = [
            claim
            for claim in article.claims
            if any(_is_one_of(name, claim.conditions) for name in conditions)
        ]
        for claim in [claim for claim in claims if claim.major] or claims:
            names = [name for name in conditions if _is_one_of(name, claim.conditions)]
            found_one = known_verdicts.get(claim.id)
            draws = None if found_one is None else found_one.draws
            command = of_conditions(lab, names, found_one)
            each = [median_of(samples.get(name, ())) for name in names]
            cost = _sum(each * (1 if draws is None else len(draws.seeds)))
            verdict = NOT_JUDGED if found_one is None else found_one.words
            rows.append(Row(claim, verdict, command, full.testbed == "namespaces", cost))
    if not rows:
        raise BadInput(
            "no claim names the conditions of its runs, so the appendix would be empty. Add "
            "`conditions` to the claims of the ledger"
        )
    return rows


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _sum(each: Sequence[Estimate]) -> Estimate:
    """The costs of all; without a run if one is unknown."""
    return Estimate(
        sum(estimate.real_s for estimate in each),
        sum(estimate.size_bytes for estimate in each),
        min(estimate.runs for estimate in each),
    )


def appendix(rows: Sequence[Row], clone: Path = CLONE) -> str:
    """The appendix as Markdown. Missing without the files of a clone of the project."""
    for name in (SYSTEM, CITATION, DOCKERFILE):
        if not (clone / name).is_file():
            raise Missing(
                f"{clone} has no {name}, which the appendix quotes. Run this in a clone of the "
                "project, installed by `make ready`"
            )
    citation = YAML(typ="safe", pure=True).load((clone / CITATION).read_text("utf-8"))
    return TEXT.format(
        title=citation["title"],
        version=citation["version"],
        badges=_as_table(BADGES),
        dockerfile=_instructions((clone / DOCKERFILE).read_text("utf-8")),
        packages=", ".join(packages((clone / SYSTEM).read_text("utf-8"))),
        claims=_table(rows),
        runs=RUNS,
        ids=",".join(row.claim.id for row in rows),
    )


def packages(system: str) -> tuple[str, ...]:
    """The Debian packages that the labs and the building of a kernel need, by the text of
    setup/system.sh."""
    match = NEEDED.search(system)
    if match is None:
        raise BadInput(f'{SYSTEM} has no list NEEDED="...". Copy the file from its source again')
    named = {line.split()[1] for line in match[1].splitlines() if line.strip()}
    return tuple(sorted({*named, *BESIDE}))


def _instructions(dockerfile: str) -> str:
    """A Dockerfile without its comments."""
    return "\n".join(line for line in dockerfile.splitlines() if not line.startswith("#"))


def _table(rows: Sequence[Row]) -> str:
    lines: list[Sequence[str]] = [HEADS]
    for row in rows:
        time_s = f"{row.cost.real_s:.0f} s" if row.cost.runs else UNKNOWN
        disk = size_in_words(row.cost.size_bytes) if row.cost.runs else UNKNOWN
        statement = f"**{row.claim.id}** {_cell(row.claim.statement)}"
        command = f"`{_cell(row.command)}`" + (" (*root*)" if row.needs_root else "")
        lines.append((statement, _cell(row.verdict), command, time_s, disk))
    return _as_table(lines)


def _as_table(lines: Sequence[Sequence[str]]) -> str:
    head, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "| --- " * len(lines[0]) + "|", *rest])


def _cell(text: str) -> str:
    """A text as one cell: a ledger may contain what Markdown takes for a column or for HTML."""
    line = printable(" ".join(text.split()))
    return line.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[").replace("`", "'")


TEXT = """\
# Artifact appendix

*{title}*, version {version}.
The artifact performs transfers between two hosts on real Linux kernels in virtual time, and
compares the results with the claims of published articles.

## Set-up

Requirements: Linux on x86-64, two CPUs, 4 GiB of memory, 5 GiB of disk, and a network during
set-up. After set-up neither root nor KVM is needed, except for commands marked *root*. `make ready`
and `labs kernel build 6.1` in the clone suffice. Its `Dockerfile` does the same in a container:
`docker build --tag lab . && docker run --rm -it lab bash`.

```Dockerfile
{dockerfile}
```

`setup/system.sh` installs these packages of Debian 12: {packages}.

Runs repeat to the byte if kernel, tools and libraries are the recorded ones. With other versions of
packages, `labs verify` names the inputs that differ and says which results moved.

## Major claims

Perform the runs of a claim with its command and `--into {runs}`. Then judge all of them:
`labs claims --from {runs} --id {ids}`

{claims}

Times are those of the machine on which this appendix was written, one run after the other; disk is
that of raw output. All claims and the reasons for their verdicts: `labs claims --all`.

## Badges

{badges}
"""
BADGES = (
    ("Badge", "What to run", "Expected", "Time"),
    (
        "Available",
        "`cd data && sha256sum --check SHA256SUMS`",
        "every file OK. The licences are MIT and, for data, CC BY 4.0; see `CITATION.cff`",
        "1 s",
    ),
    ("Functional", "`labs doctor && labs run buffers`", "exit code 0, a table of runs", "1 min"),
    (
        "Reproduced",
        "`labs verify --sample 20`, then the commands above",
        "`identical`, and the verdicts above",
        "1 min, and as above",
    ),
)
