"""Results and predictions from the user's cache, or, for whoever must not trust it, computed again:
`labs verify`, and the notebooks that it executes in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from labs.drive.record import kept_answers

COMPUTE = "LABS_COMPUTE"
"""The environment variable that is set meanwhile, so that further processes compute, too."""


def kept(question: str, answer: Callable[[], str], digest: str) -> str:
    """As `kept_answers.kept`; the answer is made within `computed`."""
    if COMPUTE in os.environ:
        return answer()
    return kept_answers.kept(question, answer, digest)


@contextmanager
def computed() -> Iterator[None]:
    """Compute every result and prediction, and keep none, in this process and those it starts."""
    before = os.environ.get(COMPUTE)
    os.environ[COMPUTE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[COMPUTE]
