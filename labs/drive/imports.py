"""The modules that a Python file imports and the files that it names, from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""What an import is, or can be in."""


def imported(tree: ast.AST, *, whole: bool = True) -> Iterator[str]:
    """The names that a file imports (`a.b.c` for `from a.b import c`), not those for type checks.

    Without `whole`, imports inside functions are omitted: these are not loaded with the file.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif whole or not isinstance(node, FUNCTIONS):
            waiting += _below(node)


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of a node, not those for type checks."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    for value in vars(node).values():
        if isinstance(value, list):
            yield from (child for child in value if isinstance(child, BLOCKS))


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts in the code, such as the names of files."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node.value
            continue
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += (child for child in value if isinstance(child, ast.AST))
