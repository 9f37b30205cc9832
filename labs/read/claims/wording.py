"""A reason in a few words, for a table: the rest is evidence, which is folded behind it."""

from __future__ import annotations

import re

MOST_WORDS = 25
CLAUSE = re.compile(r"(?<=[.;])\s+")
"""Behind a sentence or a semicolon."""
MORE = "\N{HORIZONTAL ELLIPSIS}"
ENDS = ".,;:"


def in_few_words(text: str, most: int = MOST_WORDS) -> str:
    """The first clauses of a text, at most so many words. If the first one is longer, its beginning
    and an ellipsis, up to a comma, a colon or a parenthesis if there is one in its second half."""
    words = text.split()
    if len(words) <= most:
        return text
    kept, count = list[str](), 0
    for clause in CLAUSE.split(text):
        count += len(clause.split())
        if count > most:
            break
        kept.append(clause)
    if kept:
        return " ".join(kept).rstrip(ENDS)
    ends = [
        at
        for at in range(most // 2, most)
        if words[at - 1].endswith((",", ":")) or words[at].startswith("(")
    ]
    return f"{' '.join(words[: ends[-1] if ends else most - 1]).rstrip(ENDS)} {MORE}"
