"""The modules that a Python file imports and the programs that it names, from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def imported(tree: ast.AST, *, whole: bool = True) -> Iterator[str]:
    """The names that a file imports (`a.b.c` for `from a.b import c`), not those for type checks.

    Without `whole`, imports inside functions are omitted: these are not loaded with the file.
    """
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    if not whole and isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return
    if isinstance(tree, ast.Import):
        yield from (one.name for one in tree.names)
    elif isinstance(tree, ast.ImportFrom) and tree.module:
        yield from (f"{tree.module}.{one.name}" for one in tree.names)
    for child in ast.iter_child_nodes(tree):
        yield from imported(child, whole=whole)


def programs(tree: ast.AST, suffix: str = ".py") -> Iterator[str]:
    """The programs that the code names by their files, such as `probe` for "probe.py"."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (name := node.value.removesuffix(suffix)) != node.value
            and name.isidentifier()
        ):
            yield name
