"""The errors of the project, one root, one exit code per branch.

    LabError            4 unless a branch says otherwise
    ├── BadInput        2  a name, a value or a folder that cannot be used
    ├── Missing         3  a tool, a kernel, space or a permission that is missing here
    ├── RunFailed       4  an experiment that was started and did not end well
    ├── ResultsDiffer   5  a comparison that found a difference
    └── Damaged         6  data that is incomplete or was changed by hand

Every message is one line: what was wrong, what is allowed, the next step. It may quote names and
contents of files that somebody else wrote, so an error's text shows what is not printable escaped.
"""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text with every character that is not printable escaped (`\\n`, `\\x1b`, `\\u202e`).

    Safe to print: it holds no line break, no control sequence of a terminal, nothing that changes
    the direction of writing, and no surrogate, which could not be encoded.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


class LabError(Exception):
    """Root of every error that a user can fix; `exit_code` is the command's exit code."""

    exit_code = 4

    def __str__(self) -> str:
        return one_line(super().__str__())


class BadInput(LabError):
    exit_code = 2


class Missing(LabError):
    exit_code = 3


class RunFailed(LabError):
    exit_code = 4


class ResultsDiffer(LabError):
    exit_code = 5


class Damaged(LabError):
    exit_code = 6


BRANCHES: dict[str, type[LabError]] = {
    branch.__name__: branch
    for branch in (LabError, BadInput, Missing, RunFailed, ResultsDiffer, Damaged)
}
