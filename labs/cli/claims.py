"""Check an article's claims against runs: expected, predicted and measured figures, and verdicts.

Without a lab, --article or --id, this prints the number of claims per verdict, and the claims that
do not hold on every kernel and testbed; --all prints every claim. --id shows figures and evidence.

For each testbed and kernel, a claim is judged by the newest study that has the article's parameters
for it. Studies in the folder `runs` are used first, then the recorded runs; a line names the
source. If kernels or testbeds differ, there is one line per group that agrees. --from selects other
runs; if it names a study or a run, only this is used.

Figures of competing flows, random loss or random drops depend on chance. A claim about them is
judged on five or more draws (seeds): it holds if all draws hold, and is undecided if only some do
or if a draw could not be judged. A claim is also undecided if the range that the article gives
falls on both sides of the limit. The measured figure is the median of the draws, with the range;
kernels form one group if all their ranges overlap. --seeds N performs the missing draws. "Holds
on its kernel (by its source), not since" means that the source of the article's kernel gives its
figure, but the measured kernels do not.

--against compares the verdicts with earlier ones, and says why they changed. The earlier verdicts
are the output of `labs claims --json`, a bundle, or a release of the project (its folder or its
archive). The exit code is 5 if a verdict changed.
"""

from __future__ import annotations

import re
import textwrap
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labs.cli import claims_draws
from labs.cli.command import Answer, arg
from labs.errors import BadInput, ResultsDiffer

if TYPE_CHECKING:
    from labs.read.claims.ledger import Article
    from labs.read.claims.sources import Source
    from labs.read.claims.verdict import Verdict
    from labs.read.lab import Lab

FOLDER = "runs"
RECORDED = "the recorded runs"
WIDTH = 100
INDENT = " " * 7
SHORT = 60
"""Figures in so many characters are shown with a verdict; --id shows all."""
CLAIM = re.compile(r"A(\d+)\.")
ALL = "All claims, with their witnesses: labs claims --all"
DEPENDS = "depends on kernel or testbed"
EVIDENCE = "Figures and evidence of a claim: labs claims --id ID"
CHOOSE = "To judge other runs: labs claims --from STUDY|RUNS (labs runs list shows the studies)"


def _ids(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


ARGUMENTS = (
    arg("[LAB]", "a lab's name, or a file such as ./mylab.py with its claims in ./mylab.toml"),
    arg("--article N", "judge only the claims of this article (default: every article)", int),
    arg(
        "--from STUDY|RUNS",
        "a study file, a folder given to --into, a run, or a packed file",
        dest="source",
    ),
    arg(
        "--id ID,ID",
        "show only these claims, such as A4.13, with all figures and the evidence",
        _ids,
        (),
    ),
    arg(
        "--against OLD",
        "show which verdicts changed since OLD (a JSON file, a bundle or a release), and why",
        Path,
    ),
    arg("--all", "print every claim, including those that hold"),
    *claims_draws.ARGUMENTS,
)


def main(args: Namespace) -> Answer:
    """Judge the claims, or compare with earlier verdicts (then 5 if one changed). BadInput for an
    unknown lab, article, claim or runs."""
    claims_draws.check_flags(args)
    chosen = _chosen(args.lab, args.article, args.source, args.id)
    if args.all and (args.id or args.against is not None):
        raise BadInput("--all cannot be combined with --id or --against. Omit one of them")
    if args.seeds is not None:
        draws = claims_draws.wanted(args, chosen)
        if args.dry_run:
            return claims_draws.outline(args, draws)
        claims_draws.perform(args, draws)
        args.source = args.into
        chosen = _chosen(args.lab, args.article, args.source, args.id)
    if args.against is not None:
        return _against(args, chosen)
    judgements = judged(chosen, args.source, args.id)
    every = [verdict.as_json() for *_, verdicts in judgements for verdict in verdicts]
    return Answer(every, lambda: _text(args, judgements))


Judgements = Sequence[tuple["Lab", "Article", Sequence["Verdict"]]]


def _text(args: Namespace, judgements: Judgements) -> str:
    """The claims that were asked for, in full; else the number per verdict, and every claim in
    short, or only those that do not hold."""
    from labs.read.claims.composition import telling_first

    everything = args.all or args.lab is not None or args.article is not None
    texts = []
    for lab, article, verdicts in judgements:
        title = textwrap.fill(article.citation, WIDTH)
        if args.id:
            shown = map(describe_fully, verdicts)
        elif everything:
            shown = map(describe_briefly, verdicts)
        else:
            shown = map(describe_doubt, telling_first(article, verdicts))
        if verdicts:
            texts.append("\n\n".join(filter(None, [title, *shown])))
        elif not args.id:
            texts.append(f"{title}\n{_without_runs(lab)}")
    if args.id:
        return "\n\n".join([*texts, CHOOSE])
    counted = counts([verdict for *_, verdicts in judgements for verdict in verdicts])
    hints = [*([] if everything else [ALL]), EVIDENCE, CHOOSE]
    return "\n\n".join([*texts, counted, "\n".join(hints)])


def counts(verdicts: Sequence[Verdict]) -> str:
    """`102 claims: 53 holds, 16 differs, 7 wrong`: the number of claims per verdict."""
    from labs.read.claims.verdict import DISPUTED, HOLDS, WORDS

    kinds = (HOLDS, DEPENDS, *WORDS[1:], DISPUTED)
    counted = Counter(
        verdict.verdict if verdict.verdict in kinds else DEPENDS for verdict in verdicts
    )
    text = ", ".join(f"{counted[kind]} {kind}" for kind in kinds if counted[kind])
    return textwrap.fill(f"{len(verdicts)} claims: {text}", WIDTH)


def judged(
    chosen: Sequence[tuple[Lab, Article]], source: str | None, ids: Sequence[str] = ()
) -> Judgements:
    """The verdicts on the claims of labs, or on those with one of `ids`, by the runs in `source` or
    else by the user's own and the recorded ones. BadInput without any run."""
    from labs.read.claims.composition import noted_once
    from labs.read.claims.sources import verdicts_from

    places = [_sources(lab, source) for lab, _ in chosen]
    if not any(places):
        raise BadInput(_without_runs(chosen[0][0]))
    noted: set[str] = set()
    return [
        (lab, article, noted_once(verdicts_from(lab, sources, ids) if sources else (), noted))
        for (lab, article), sources in zip(chosen, places, strict=True)
    ]


def _against(args: Namespace, chosen: Sequence[tuple[Lab, Article]]) -> Answer:
    """What changed since earlier verdicts on the same claims; 5 if a verdict did."""
    from labs.read.claims.moved import compare_verdicts
    from labs.verify.recorded_verdicts import verdicts_in

    earlier, only = verdicts_in(args.against)
    common = [pair for pair in chosen if only is None or pair[1].number in only]
    if not common:
        raise BadInput(
            f"{args.against} has no verdict on article "
            f"{', '.join(str(article.number) for _, article in chosen)}. It has those on article "
            f"{', '.join(map(str, sorted(only or ()))) or 'none'}"
        )
    numbers = [str(article.number) for _, article in common]

    def is_compared(name: str) -> bool:
        match = CLAIM.match(name)
        return name in args.id if args.id else match is not None and match[1] in numbers

    before = [verdict for verdict in earlier if is_compared(verdict["id"])]
    after = [verdict for *_, some in judged(common, args.source, args.id) for verdict in some]
    comparison = compare_verdicts(before, [verdict.as_json() for verdict in after])
    return Answer(
        comparison.as_json(),
        "\n".join(comparison.lines()),
        exit_code=ResultsDiffer.exit_code if comparison.moved else 0,
    )


def _with_ids(
    every: Sequence[tuple[Lab, Article]], ids: Sequence[str]
) -> list[tuple[Lab, Article]]:
    """The articles with these claims. BadInput for an ID that none of them has."""
    ids_by_article = [[claim.id for claim in article.claims] for _, article in every]
    for claim_id in ids:
        if not any(claim_id in some for some in ids_by_article):
            allowed = ", ".join(sorted(f"{some[0]} to {some[-1]}" for some in ids_by_article))
            raise BadInput(
                f"{claim_id} is not a claim. Allowed: {allowed}. To see them: labs claims --all"
            )
    return [pair for pair, some in zip(every, ids_by_article, strict=True) if set(some) & set(ids)]


def _chosen(
    name: str | None, number: int | None, source: str | None, ids: Sequence[str] = ()
) -> list[tuple[Lab, Article]]:
    """The articles to judge: those of the named lab, or of every lab of the package; of these the
    one with the given number, those with the claims `ids`, or those of the labs in `source`.
    BadInput if there is none."""
    from labs.catalog import find, with_ledgers
    from labs.read.claims.ledger import read
    from labs.read.claims.sources import labs_of

    chosen_labs = with_ledgers() if name is None else (find(name),)
    every = [(lab, read(lab.ledger)) for lab in chosen_labs if lab.ledger is not None]
    if not every:
        raise BadInput(f"the lab {name} has no ledger. Write its claims to {_ledger_of(name)}")
    if number is not None:
        chosen = [(lab, article) for lab, article in every if article.number == number]
        if not chosen:
            there = ", ".join(map(str, sorted({article.number for _, article in every})))
            own = "" if name else ". For a lab of your own: labs claims ./mylab.py"
            raise BadInput(f"there is no article {number} with claims. Allowed: {there}{own}")
        every = chosen
    if ids:
        return _with_ids(every, ids)
    if source is None or name is not None:
        return every
    labs = labs_of(Path(source))
    return [(lab, article) for lab, article in every if lab.name in labs] or every


def _ledger_of(lab: str | None) -> str:
    path = Path(str(lab))
    return str(path.with_suffix(".toml")) if path.suffix == ".py" else "an articleN.toml"


def _sources(lab: Lab, where: str | None) -> tuple[Source, ...]:
    """The runs of a lab that a user named, or those of the folder `runs` and the recorded ones."""
    from labs.drive.record.run_folder import STUDIES
    from labs.read.claims.sources import recorded_sources, sources_of
    from labs.read.runs.archive import is_packed

    if where is not None:
        return sources_of(lab, Path(where), where if is_packed(Path(where)) else "")
    folder = Path(FOLDER)
    sources: list[Source] = []
    if (folder / STUDIES / f"{lab.name}.json").is_file():
        sources += sources_of(lab, folder)
    return (*sources, *recorded_sources(lab, RECORDED))


def _without_runs(lab: Lab) -> str:
    return (
        f"there are no runs of {lab.name}, neither in the folder {FOLDER} nor in the "
        f"recorded data. Run: labs run {lab.source or lab.name}"
    )


def describe_briefly(verdict: Verdict) -> str:
    """A claim, its verdict and the reason in a few words; one line for those kernels or testbeds
    that agree."""
    witness = [_describe_witness(verdict)] if verdict.witness and not verdict.parts else []
    return _describe(verdict, [verdict.statement, *_reasons(verdict.rows), *witness])


def describe_doubt(verdict: Verdict) -> str:
    """The same only where the claim does not hold; empty if it holds everywhere."""
    from labs.read.claims.verdict import HOLDS

    rows = [row for row in verdict.rows if row.verdict != HOLDS]
    return _describe(verdict, [verdict.statement, *_reasons(rows)]) if rows else ""


def _describe(verdict: Verdict, lines: Sequence[str]) -> str:
    return "\n".join([f"{verdict.id:<6} {verdict.words}", *map(_indented, lines)])


def _reasons(rows: Sequence[Verdict]) -> Iterator[str]:
    """The measurement and a short reason, per verdict."""
    for row in rows:
        measured = row.measured_in_words
        figure = f"{measured} ({row.unit})" if measured and len(measured) <= SHORT else ""
        testbeds = f" ({', '.join(row.testbeds)})" if len(row.testbeds) > 1 else ""
        where = f"{row.where}{testbeds}: {row.kind}" if row.where else ""
        first = ", ".join(filter(None, (where, figure and f"measured {figure}")))
        yield "; ".join(filter(None, (first, row.because)))


def _describe_witness(verdict: Verdict) -> str:
    runs = "" if verdict.runs == RECORDED else f"; runs: {verdict.runs}"
    return f"witness: {verdict.witness}{runs}"


def describe_fully(verdict: Verdict) -> str:
    """A claim with all figures and the evidence."""
    from labs.read.display.format import figures_in_words

    lines = [verdict.statement, f"article: {figures_in_words(verdict.expected)} ({verdict.unit})"]
    for row in verdict.rows:
        figures = [
            f"{name} {figure}"
            for name, figure in (
                ("predicted", figures_in_words(row.predicted)),
                ("measured", row.measured_in_words),
            )
            if figure
        ]
        lines += [row.words] if row.where else []
        lines += [f"{'; '.join(figures)} ({row.unit})"] if figures else []
        lines += row.evidence
        lines += [_describe_witness(row)] if row.witness else []
    if verdict.note is not None and str(verdict.note) not in lines:
        lines.append(str(verdict.note))
    return _describe(verdict, lines)


def _indented(line: str) -> str:
    return textwrap.fill(
        line,
        WIDTH,
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_long_words=False,  # a path stays whole
        break_on_hyphens=False,
    )
