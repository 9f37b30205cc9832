"""Results and predictions from the user's cache, or computed again for callers that must not trust
the cache: `labs verify`, and the notebooks that it executes in separate processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from labs.drive.record import kept_answers

COMPUTE = "LABS_COMPUTE"
"""The environment variable set within `computed`, so that child processes compute, too."""


def kept(question: str, answer: Callable[[], str], digest: str) -> str:
    """As `kept_answers.kept`; within `computed` the answer is always computed."""
    if COMPUTE in os.environ:
        return answer()
    return kept_answers.kept(question, answer, digest)


@contextmanager
def computed() -> Iterator[None]:
    """Compute every result and prediction, and keep none, in this process and its children."""
    before = os.environ.get(COMPUTE)
    os.environ[COMPUTE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[COMPUTE]
