"""How often `labs explain` is right, on captures whose causes are known: `make explain-truth`.

    python3 benchmarks/explain/truth.py [--each N] [--folder DIR] [--hidden] [--page X.html]

Records the scenarios that the folder lacks in virtual kernels, explains a capture of each, and
compares. Prints precision and recall per reason, the time that was attributed wrongly, and the
reasons that were invented in captures made worse; writes them beside the confusion matrix.
`--hidden` takes the other seed, whose scenarios were never looked at while the rules were written.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from plotly.graph_objects import Figure, Heatmap  # noqa: E402

from benchmarks.explain.record import record  # noqa: E402
from benchmarks.explain.scenarios import drawn  # noqa: E402
from benchmarks.explain.score import Scored, of_folder, of_worsened, precision_and_recall  # noqa: E402
from labs.drive.record.cache import cache  # noqa: E402
from labs.drive.record.disk import write_whole  # noqa: E402
from labs.read.figures.style import dressed  # noqa: E402
from labs.read.flows.reasons import REASONS  # noqa: E402

DEVELOPMENT, HIDDEN = (1, 14), (49_979_687, 14)  # seed, and scenarios per cause
WORSENED = 60
LEAST, MOST_WRONG, MOST_INVENTED = 0.95, 0.02, 0.02


def summary(scores: list[Scored], worse: list[tuple[str, str, set[str]]]) -> dict[str, Any]:
    """The figures of one part."""
    table = {
        name: {
            "right": right,
            "invented": invented,
            "missed": missed,
            # A usual reason is never counted as invented, so it has no precision.
            "precision": right / (right + invented)
            if right + invented and (name not in REASONS or not REASONS[name].is_usual)
            else None,
            "recall": right / (right + missed) if right + missed else None,
        }
        for name, (right, invented, missed) in precision_and_recall(scores).items()
    }
    return {
        "captures": len(scores),
        "reasons": table,
        "wrong_share_of_time": sum(score.wrong_ms for score in scores)
        / max(1.0, sum(score.duration_ms for score in scores)),
        "worsened": len(worse),
        "worsened_with_a_wrong_reason": sum(bool(wrong) for _, _, wrong in worse),
        "worse": [
            {"capture": name, "made": kind, "invented": sorted(wrong)}
            for name, kind, wrong in worse
            if wrong
        ],
    }


def confusion(scores: list[Scored], title: str) -> Figure:
    """What was found (columns) in captures with each reason (rows), as a share of them; in the
    column `nothing` those of which the reason was not found."""
    names = sorted({name for score in scores for name in score.true})
    counts = Counter[tuple[str, str]]()
    rows = Counter[str]()
    for score in scores:
        for true in score.true:
            rows[true] += 1
            counts[true, true if true in score.reported else "nothing"] += 1
            for other in score.invented:
                counts[true, other] += 1
    columns = [*names, *sorted({to for _, to in counts} - {*names, "nothing"}), "nothing"]
    shares = [[counts[true, to] / rows[true] for to in columns] for true in names]
    figure = Figure(
        Heatmap(
            z=shares,
            x=columns,
            y=[f"{name} ({rows[name]})" for name in names],
            colorscale="Blues",
            zmin=0,
            zmax=1,
            text=[[f"{share:.0%}" if share else "" for share in row] for row in shares],
            texttemplate="%{text}",
            textfont={"size": 10},
            colorbar={"title": {"text": "share"}},
        )
    )
    right = sum(not score.missed and not score.invented for score in scores)
    figure.update_xaxes(title="reason that was told", tickangle=-50)
    figure.update_yaxes(title="reason that the scenario set (captures)", autorange="reversed")
    return dressed(
        figure,
        title=title,
        caption=f"{len(scores)} captures from virtual kernels; a capture may have several reasons",
        height=300 + 24 * len(names),
        tell=f"{right} of {len(scores)} right",
        table=None,
    )


def describe(part: dict[str, Any]) -> str:
    lines = [f"{'reason':28} right invented missed precision recall"]
    for name, reason in part["reasons"].items():
        figures = [
            "    -" if reason[kind] is None else f"{reason[kind]:5.2f}"
            for kind in ("precision", "recall")
        ]
        below = any((reason[kind] or 1) < LEAST for kind in ("precision", "recall"))
        lines.append(
            f"{name:28} {reason['right']:5} {reason['invented']:8} {reason['missed']:6}     "
            f"{figures[0]}  {figures[1]}{'  below ' + str(LEAST) if below else ''}"
        )
    lines += [
        f"time attributed wrongly: {part['wrong_share_of_time']:.2%} (at most {MOST_WRONG:.0%})",
        f"made worse: {part['worsened_with_a_wrong_reason']} of {part['worsened']} with a wrong "
        f"reason (at most {MOST_INVENTED:.0%})",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hidden", action="store_true", help="the part never looked at before")
    parser.add_argument("--each", type=int, help="scenarios per cause")
    parser.add_argument("--folder", type=Path, help="where captures are kept (default: the cache)")
    parser.add_argument("--page", type=Path, help="write the confusion matrix as a page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--record-only", action="store_true", help="record, and compare nothing")
    args = parser.parse_args()
    seed, each = HIDDEN if args.hidden else DEVELOPMENT
    each = args.each or each
    part = "hidden" if args.hidden else "development"
    folder = args.folder or cache() / f"explain-truth-{part}"
    record(drawn(seed, each), folder)
    if args.record_only:
        return 0
    scores = of_folder(folder)
    with tempfile.TemporaryDirectory() as work:
        worse = of_worsened(folder, Path(work), WORSENED, seed)
    figures = {"part": part, "seed": seed, "each": each, **summary(scores, worse)}
    print(describe(figures))
    if args.json:
        write_whole(args.json, (json.dumps(figures, indent=1) + "\n").encode())
    if args.page:
        figure = confusion(scores, f"Reasons told and true: {part} part, seed {seed}")
        args.page.parent.mkdir(parents=True, exist_ok=True)
        write_whole(args.page, figure.to_html(include_plotlyjs=True).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
