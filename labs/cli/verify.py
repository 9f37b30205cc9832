"""Check published runs and perform them again: identical, moved within tolerance, or moved beyond.

WHAT is a bundle (labs bundle), a folder of recorded data with SHA256SUMS (default: the recorded
runs of the project), or runs: a run, a study file, a folder given to --into, or a packed file.

First every checksum, seal and schema is checked. Then the runs in virtual time are performed again
from the inputs stored in them, in a temporary folder, and compared byte by byte. If bytes differ,
the results that changed and the inputs that differ are listed, with the likeliest cause first. A
result has moved within tolerance if the headline figure of the run is within the margin of its lab.

Runs in real time are not reproducible to the byte. Their verdicts and intervals are computed again
from their raw files, and must equal the recorded ones. --real-time N repeats N of their conditions,
if the testbed can be used here (namespaces: as root; vagrant: with both machines running), and says
whether the recorded 95 % interval covers the new median.

The other parts of a bundle are compared, too: verdicts, their texts, intervals, metadata,
parameters of notebooks, figures in tables of results, code, environment and kernels. Parts that
could not be compared are listed, and named in the last line; the grade then ends with "in part".
Without a bundle, the grade ends so if a run could not be repeated. Results are never taken from the
cache.

Nothing in a bundle is executed without --execute: its notebooks are read as data, and a bundle that
contains other code, such as a lab, is refused. --execute runs the code of its notebooks with your
permissions, and compares the numbers and words in their outputs. Use it only for bundles that you
trust.

exit codes: 0 identical, covered or intact; 8 one of these in part; 7 moved within tolerance;
            5 moved beyond; 6 damaged; 4 no run could be repeated; 2 and 3 as for every command
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from labs.cli.command import JOBS, Answer, arg
from labs.errors import Damaged

DAMAGED = "damaged"
ARGUMENTS = (
    arg(
        "[WHAT]",
        "a bundle, recorded data or runs (default: the recorded runs of the project)",
        Path,
    ),
    arg(
        "--kernel VERSION",
        "repeat only runs on this kernel: a series such as 6.1, a version or a digest",
    ),
    arg("--sample N", "repeat N runs, drawn at random (default: all)", int, least=1),
    arg(
        "--real-time N",
        "repeat N conditions in real time, five runs each, on their testbed",
        int,
        0,
        least=0,
    ),
    arg("--seed S", "seed of the draws", int, 1),
    arg("--execute", "execute the notebooks of the bundle; their code runs with your permissions"),
    arg("--lab FILE...", "also verify the runs of this lab of your own; its code is executed"),
    JOBS,
)


def main(args: Namespace) -> Answer:
    """Verify; the exit code is that of the grade. Raises LabError."""
    from labs.catalog import LABS, find
    from labs.drive.kernel.versions import read_kernel_spec
    from labs.drive.testbeds import VIRTUAL
    from labs.launch.launch import check_platform
    from labs.launch.wanted import Wanted
    from labs.read.answers import computed
    from labs.read.runs import recorded
    from labs.verify.verify import Draw, verify

    check_platform(VIRTUAL)
    spec = None if args.kernel is None else read_kernel_spec(args.kernel)
    user_labs = [find(path).name for path in args.lab]
    what = recorded.folder() if args.what is None else args.what
    try:
        with computed():
            verified = verify(
                what,
                Draw(spec, args.sample, args.real_time, args.seed),
                Wanted(jobs=args.jobs),
                notebooks=args.execute,
                labs=(*LABS, *user_labs),
                progress=sys.stderr.isatty(),
            )
    except Damaged as error:
        report = {"grade": DAMAGED, "what": str(what), "message": str(error)}
        return Answer(report, error=error)
    return Answer(verified.as_json(), "\n".join(verified.lines()), exit_code=verified.exit_code)
