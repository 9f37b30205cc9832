"""Restricted Python as C: what `labs.read.native.compiled` has the machine's compiler translate.

A function of it takes and returns `int`, `bool` (tuples of `int`, too, or nothing) and takes arrays
of numbers, whose types are `ARRAYS`. It has assignments, if, while, for over range() or a tuple,
comparisons, arithmetic, min, max, len, slices of arrays, constants of its module and other such
functions. All numbers are of 64 bits and wrap; the operands of // and % are not negative. Whatever
else it has is refused, so that C means what Python does.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

ARRAYS: Final = {
    "Bytes": "uint8_t",
    "Int8s": "int8_t",
    "Uint16s": "uint16_t",
    "Int32s": "int32_t",
    "Uint32s": "uint32_t",
    "Int64s": "int64_t",
}
PRELUDE: Final = (
    "#include <stdint.h>",
    *(
        f"typedef struct {{ {element} *at; int64_t length, row; }} {name};"
        for name, element in ARRAYS.items()
    ),
    *(
        f"typedef struct {{ int64_t {', '.join(f'f{n}' for n in range(count))}; }} tuple{count};"
        for count in (2, 3, 4)
    ),
    "static inline int64_t f_min(int64_t a, int64_t b) { return a < b ? a : b; }",
    "static inline int64_t f_max(int64_t a, int64_t b) { return a > b ? a : b; }",
    "static inline int64_t f_power(int64_t a, int64_t b) "
    "{ int64_t all = 1; while (b-- > 0) all *= a; return all; }",
)
OPERATORS: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.USub: "-",
    ast.Invert: "~", ast.Not: "!", ast.And: "&&", ast.Or: "||", ast.Eq: "==", ast.NotEq: "!=",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
Function = Callable[..., Any]
RARE = '__attribute__((optimize("O1"), noinline)) static'
"""A compiler that does not know the attribute ignores it."""


def translated(function: Function, functions: Mapping[Function, bool]) -> str:
    """A C file that exports `function`. Those that it calls must be in `functions`, which says
    whether they are needed rarely: then they are compiled quickly, and not made part of their
    callers."""
    bodies: dict[str, str] = {}
    _add(function, functions, bodies)
    name = function.__name__
    bodies[name] = bodies[name].replace("static ", "", 1)
    return "\n".join((*PRELUDE, *bodies.values()))


def _add(function: Function, functions: Mapping[Function, bool], bodies: dict[str, str]) -> None:
    translation = Translation(function, functions)
    text = translation.text()
    for called in translation.calls:
        if called.__name__ not in bodies:
            _add(called, functions, bodies)
    bodies[function.__name__] = text


def parameters(function: Function) -> list[tuple[str, str]]:
    """The names of a function's parameters, and their types in C."""
    return [
        (name, "int64_t" if kind in ("int", "bool") else kind)
        for name, kind in function.__annotations__.items()
        if name != "return"
    ]


def returned(function: Function) -> str:
    """What a function returns, in C."""
    annotation: str = function.__annotations__["return"]
    if annotation.startswith("tuple"):
        return f"tuple{annotation.count('int')}"
    return {"None": "void", "int": "int64_t", "bool": "int64_t"}[annotation]


class Translation:
    """One function."""

    linkage = "static"

    def __init__(self, function: Function, functions: Mapping[Function, bool]) -> None:
        self.function, self.functions = function, functions
        if functions[function]:
            self.linkage = RARE
        self.calls: list[Function] = []
        self.parameters = dict(parameters(function))
        self.locals: dict[str, str] = {}
        self.results = returned(function)
        self.symbol = f"f_{function.__name__}"
        self.loops = 0

    def text(self) -> str:
        parsed = ast.parse(textwrap.dedent(inspect.getsource(self.function))).body[0]
        assert isinstance(parsed, ast.FunctionDef)
        body = "\n".join(line for statement in parsed.body for line in self.statement(statement))
        taken = ", ".join(f"{kind} v_{name}" for name, kind in self.parameters.items())
        made = "".join(f"{kind} v_{name} = {{0}};\n" for name, kind in self.locals.items())
        return f"{self.linkage} {self.results} {self.symbol}({taken})\n{{\n{made}{body}\n}}"

    def refused(self, node: ast.AST) -> TypeError:
        return TypeError(f"{self.function.__qualname__} is not restricted: {ast.unparse(node)}")

    def block(self, statements: list[ast.stmt]) -> Iterator[str]:
        yield "{"
        for statement in statements:
            yield from self.statement(statement)
        yield "}"

    def statement(self, node: ast.stmt) -> Iterator[str]:
        match node:
            case ast.Expr(ast.Constant(str())) | ast.Pass():
                pass
            case ast.Expr(ast.Call() as call):
                yield f"{self.value(call)};"
            case ast.Assign([target], value):
                yield from self.assignment(target, value)
            case ast.AugAssign(target, operator, value):
                yield f"{self.place(target)} {OPERATORS[type(operator)]}= {self.value(value)};"
            case ast.If(test, body, other):
                yield f"if ({self.truth(test)})"
                yield from self.block(body)
                if other:
                    yield "else"
                    yield from self.block(other)
            case ast.While(test, body, []):
                yield f"while ({self.truth(test)})"
                yield from self.block(body)
            case ast.For(ast.Name(name), over, body, []):
                yield from self.loop(name, over, body)
            case ast.Return(value):
                yield f"return {'' if value is None else self.value(value)};"
            case ast.Break():
                yield "break;"
            case ast.Continue():
                yield "continue;"
            case _:
                raise self.refused(node)

    def assignment(self, target: ast.expr, value: ast.expr) -> Iterator[str]:
        if not isinstance(target, ast.Tuple):
            array = isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice)
            yield f"{self.place(target, value if array else None)} = {self.value(value)};"
            return
        yield f"{{ tuple{len(target.elts)} all = {self.value(value)};"
        for number, element in enumerate(target.elts):
            yield f"{self.place(element)} = all.f{number};"
        yield "}"

    def place(self, target: ast.expr, array: ast.expr | None = None) -> str:
        """What is assigned to: a variable, which is declared (as an `array`), or an element."""
        if isinstance(target, ast.Subscript):
            return self.element(target)
        if not isinstance(target, ast.Name):
            raise self.refused(target)
        if target.id not in self.parameters:
            kind = "int64_t" if array is None else self.kind(array)
            if self.locals.setdefault(target.id, kind) != kind:
                raise self.refused(target)
        return f"v_{target.id}"

    def kind(self, array: ast.expr) -> str:
        match array:
            case ast.Subscript(ast.Name(name)):
                return (self.parameters | self.locals)[name]
        raise self.refused(array)

    def loop(self, name: str, over: ast.expr, body: list[ast.stmt]) -> Iterator[str]:
        self.loops += 1
        step, last = f"i{self.loops}", f"n{self.loops}"
        place = self.place(ast.Name(name))
        match over:
            case ast.Call(ast.Name("range"), [first, end, by]):
                yield f"for (int64_t {step} = {self.value(first)}, {last} = {self.value(end)},"
                yield f"by = {self.value(by)}; {step} < {last}; {step} += by) {{ {place} = {step};"
            case ast.Call(ast.Name("range"), [*first, end]):
                begin = self.value(first[0]) if first else "0"
                yield f"for (int64_t {step} = {begin}, {last} = {self.value(end)};"
                yield f"{step} < {last}; {step}++) {{ {place} = {step};"
            case ast.Tuple(values):
                listed = ", ".join(self.value(value) for value in values)
                yield f"{{ int64_t all[] = {{{listed}}};"
                yield f"for (int {step} = 0; {step} < {len(values)}; {step}++) {{"
                yield f"{place} = all[{step}];"
            case _:
                raise self.refused(over)
        yield from self.block(body)
        yield "}" if isinstance(over, ast.Call) else "}}"

    def element(self, node: ast.Subscript) -> str:
        match node:
            case ast.Subscript(ast.Name(array), ast.Tuple([row, column])):
                at = f"{self.value(row)} * v_{array}.row + {self.value(column)}"
            case ast.Subscript(ast.Name(array), index):
                at = self.value(index)
            case _:
                raise self.refused(node)
        return f"v_{array}.at[{at}]"

    def truth(self, node: ast.expr) -> str:
        return self.value(node)

    def value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(int(number)):
                return f"{int(number)}LL"
            case ast.Name(name):
                return self.named(name, node)
            case ast.Subscript(ast.Name(array), ast.Slice(ast.expr() as first, ast.expr(), None)):
                return f"({self.kind(node)}) {{v_{array}.at + {self.value(first)}, 0, 0}}"
            case ast.Subscript():
                return f"(int64_t) {self.element(node)}"
            case ast.BinOp(left, ast.Pow(), right):
                return f"f_power({self.value(left)}, {self.value(right)})"
            case ast.BinOp(left, operator, right):
                return f"({self.value(left)} {OPERATORS[type(operator)]} {self.value(right)})"
            case ast.UnaryOp(sign, operand):
                return f"({OPERATORS[type(sign)]}{self.value(operand)})"
            case ast.BoolOp(word, values):
                return (
                    f"({f' {OPERATORS[type(word)]} '.join(self.value(value) for value in values)})"
                )
            case ast.IfExp(test, body, otherwise):
                return f"({self.value(test)} ? {self.value(body)} : {self.value(otherwise)})"
            case ast.Tuple(values):
                listed = ", ".join(self.value(value) for value in values)
                return f"(tuple{len(values)}) {{{listed}}}"
            case ast.Compare(left, [operator], [right]):
                return self.comparison(left, operator, right)
            case ast.Call(ast.Name(name), given):
                return self.call(name, given)
            case _:
                raise self.refused(node)

    def named(self, name: str, node: ast.expr) -> str:
        if name in self.parameters or name in self.locals:
            return f"v_{name}"
        constant = self.function.__globals__.get(name)
        if not isinstance(constant, int):
            raise self.refused(node)
        return f"{int(constant)}LL"

    def comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        text = self.value(left)
        match operator, right:
            case ((ast.In() | ast.NotIn()), ast.Tuple(values)):
                each = " || ".join(f"{text} == {self.value(value)}" for value in values)
                return f"({'!' if isinstance(operator, ast.NotIn) else ''}({each}))"
            case ((ast.In() | ast.NotIn()), ast.Name(name)):
                values = [ast.Constant(value) for value in self.function.__globals__[name]]
                return self.comparison(left, operator, ast.Tuple(values))
            case _:
                return f"({text} {OPERATORS[type(operator)]} {self.value(right)})"

    def call(self, name: str, given: list[ast.expr]) -> str:
        if name == "len":
            if not isinstance(given[0], ast.Name):
                raise self.refused(given[0])
            return f"v_{given[0].id}.length"
        values = ", ".join(self.value(argument) for argument in given)
        if name == "int":
            return values
        if name not in ("min", "max"):
            called = self.function.__globals__[name]
            if called not in self.functions:
                raise TypeError(f"{self.function.__qualname__} calls {name}, which is not compiled")
            self.calls.append(called)
        return f"f_{name}({values})"
