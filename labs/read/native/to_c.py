"""Restricted Python as C: the passes over captures, and the simulation of a transfer.

A function of it works on `int`, `float`, `bool` and `str`, on arrays of numbers and of records, and
on records (`labs.read.native.compiled`). A method also works on other objects, on dataclasses with
slots, on deques of integers or records and lists of `str`, whose types their class declares, on
growing arrays, and on a `Random`; the type of any other field is that of its value in the object at
hand, and a method is that of the object's class. Both have assignments, if, while, for over
range(), a tuple or a deque, comparisons, arithmetic, min, max, abs, len, constants of their module,
`in`, `is`, `del`, `super()`, keywords, and calls of functions like them. Whatever else they have is
refused, so that C means what Python does.

A slotted record is copied when it is appended, so nothing else may refer to it afterwards, and one
that was taken from a deque may not be used once the deque has changed. One that is compared by
identity (`eq=False`) is referred to, and lives until the method ends. Calls within one expression
may be made in any order. Places outside an array, and what Python would compute with more than 64
bits, or refuse, end the call without a result.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any, Final, get_args, get_origin, get_type_hints

from labs.read.native.compiled import (
    NUMBERS,
    PRIMITIVES,
    Arrays,
    Record,
    Records,
    is_rare,
    symbol_of,
)

INT, FLOAT, TEXT, RANDOM = "int64_t", "double", "string", "twister"
PLAIN: Final = {int: INT, bool: INT, float: FLOAT, str: TEXT, type(None): "void"}
ELEMENTS: Final = {"q": INT, "d": FLOAT}
CHECKED: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floor", ast.Mod: "mod",
    ast.LShift: "shift", ast.RShift: "right", ast.Pow: "power",
}  # fmt: skip
OPERATORS: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.USub: "-", ast.Invert: "~", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
PRELUDE: Final = Path(__file__).with_name("prelude.h")
Function = Callable[..., Any]
Typed = tuple[str, str]
"""The type of an expression in C, and its text."""


def passes(functions: Iterable[Function]) -> str:
    """The C file that exports functions over arrays."""
    program = Program({})
    return program.text([program.exported(function) for function in functions])


class Program:
    """What a method or some functions need: the structures, and every function that is called.

    `objects` has one object of each class.
    """

    def __init__(self, objects: dict[type, object]) -> None:
        self.objects = objects
        self.hints = {kind: get_type_hints(kind) for kind in objects}
        self.classes = {f"s_{kind.__name__}": kind for kind in objects}
        self.structs: dict[str, dict[str, str]] = {name: {} for name in self.classes}
        self.records: dict[str, dict[str, str]] = {}
        self.references: set[str] = set()
        self.arrays: set[str] = set()
        self.bodies: dict[str, str] = {}
        self.heads: list[str] = []

    def text(self, exports: list[str]) -> str:
        """The C file with these functions for whoever calls the library."""
        structs = [f"typedef struct {name} {name};" for name in self.structs]
        for name, record in self.records.items():
            structs.append(_struct(name, record))
            if name in self.arrays:
                structs.append(f"ARRAY(a_{name}, {name})")
            elif self.objects:
                kind = "REFERENCES" if name in self.references else "QUEUE"
                structs.append(f"{kind}(q_{name}, {name})")
        structs += [_struct(name, members) for name, members in self.structs.items()]
        parts = (PRELUDE.read_text(), *structs, *self.heads, *self.bodies.values(), *exports)
        return "\n".join(parts)

    def method_text(self, owner: type, method: str, symbol: str) -> str:
        """The C file that exports a method, and the layout of the structures, as JSON."""
        called = self.method(owner, method)
        layout = json.dumps(json.dumps(self.structs))
        return self.text(
            [
                f"const char layout_{symbol}[] = {layout};",
                f"int64_t perform_{symbol}(s_{owner.__name__} *self)",
                f"{{ int64_t done = 0; if (!setjmp(failed)) {{ {called}(self); done = 1; }}",
                "f_forget(); return done; }",
            ]
        )

    def exported(self, function: Function) -> str:
        """What calls a function from outside: with arrays by reference, and a place for what it
        returns. It returns whether the function ended."""
        symbol = self.function(function, symbol_of(function))
        hints = get_type_hints(function)
        result = self.type_of(hints.pop("return"))
        kinds = [(name, self.type_of(kind)) for name, kind in hints.items()]
        taken = "".join(
            f", {kind} {'*' if kind.startswith('a_') else ''}{name}" for name, kind in kinds
        )
        given = ", ".join(f"{'*' if kind.startswith('a_') else ''}{name}" for name, kind in kinds)
        called = f"{symbol}({given});"
        if result != "void":
            called = f"{result} made = {called} memcpy(results, &made, sizeof made);"
        return (
            f"int64_t perform_{symbol}(int64_t *results{taken})\n"
            f"{{ if (setjmp(failed)) return 0; {called} return 1; }}"
        )

    def method(self, owner: type, name: str, after: type | None = None) -> str:
        """The symbol of a method, which is translated at its first call: that of the owner's class,
        or the next one `after` a class that it inherits from."""
        defined = defining(owner, name, after)
        symbol = "_".join((owner.__name__, *((defined.__name__,) if after else ()), name))
        return self.function(vars(defined)[name], symbol, owner, defined)

    def function(
        self,
        function: Function,
        symbol: str,
        owner: type | None = None,
        defined: type | None = None,
    ) -> str:
        if symbol not in self.bodies:
            self.bodies[symbol] = ""
            self.bodies[symbol] = Translation(self, function, symbol, owner, defined).text()
            self.heads.append(self.bodies[symbol].partition("\n")[0] + ";")
        return symbol

    def field(self, struct: str, name: str) -> str:
        """The type of a field, which becomes part of its structure."""
        if struct in self.records:
            return self.records[struct][name]
        owner, members = self.classes[struct], self.structs[struct]
        if name not in members:
            value = getattr(self.objects[owner], name)
            if isinstance(value, array):
                members[name] = f"q_{ELEMENTS[value.typecode]}"
            elif isinstance(value, deque | list):
                (kind,) = get_args(self.hints[owner][name])
                members[name] = f"q_{self.type_of(kind).removesuffix(' *')}"
            elif type(value) in self.objects:
                members[name] = f"s_{type(value).__name__}"
            elif isinstance(value, Random):
                members[name] = RANDOM
            else:
                members[name] = PLAIN[type(value)]
        return members[name]

    def type_of(self, hint: Any) -> str:
        """The C type of an annotation."""
        if hint in PLAIN:
            return PLAIN[hint]
        if hint in NUMBERS:
            return f"a_{NUMBERS[hint].c}"
        if get_origin(hint) is tuple:
            return f"tuple{len(get_args(hint))}"
        if get_origin(hint) is deque:
            (kind,) = get_args(hint)
            return f"q_{self.type_of(kind).removesuffix(' *')} *"
        if get_origin(hint) is Records:
            name = self.type_of(get_args(hint)[0]).removesuffix(" *")
            self.arrays.add(name)
            return f"a_{name}"
        if isinstance(hint, type):
            shared = issubclass(hint, Record | Arrays)
            if shared or (is_dataclass(hint) and hasattr(hint, "__slots__")):
                return f"{self.record(hint, inside=shared)} *"
        raise TypeError(f"{hint} has no type in C")

    def record(self, kind: type, *, inside: bool) -> str:
        """The structure of a record; records of its own are `inside` of it."""
        name = f"r_{symbol_of(kind)}"
        if name not in self.records:
            members = {field: self.type_of(hint) for field, hint in get_type_hints(kind).items()}
            if inside:
                members = {field: hint.removesuffix(" *") for field, hint in members.items()}
            elif "__eq__" not in vars(kind):
                self.references.add(name)
            self.records[name] = members
        return name


def defining(owner: type, name: str, after: type | None = None) -> type:
    """The class of whose body a method is, the next one `after` another of the owner's classes."""
    classes = owner.__mro__
    rest = classes[classes.index(after) + 1 :] if after else classes
    return next(base for base in rest if name in vars(base))


def _struct(name: str, members: dict[str, str]) -> str:
    body = "".join(
        f"{kind} {'*' if kind.startswith('s_') or kind == RANDOM else ''}f_{field}; "
        for field, kind in members.items()
    )
    return f"typedef struct {name} {{ {body or 'int64_t none;'} }} {name};"


class Translation:
    """One function or method."""

    def __init__(
        self,
        program: Program,
        function: Function,
        symbol: str,
        owner: type | None,
        defined: type | None,
    ) -> None:
        self.program, self.function, self.symbol = program, function, symbol
        self.owner, self.defined = owner, defined
        hints = get_type_hints(function)
        self.results = program.type_of(hints.pop("return"))
        self.parameters = {name: program.type_of(kind) for name, kind in hints.items()}
        if owner is not None:
            self.parameters = {"self": f"s_{owner.__name__} *"} | self.parameters
        self.locals: dict[str, str] = {}
        self.loops = 0

    def text(self) -> str:
        parsed = ast.parse(textwrap.dedent(inspect.getsource(self.function))).body[0]
        assert isinstance(parsed, ast.FunctionDef)
        body = "\n".join(line for statement in parsed.body for line in self.statement(statement))
        taken = ", ".join(f"{kind} v_{name}" for name, kind in self.parameters.items())
        made = "".join(f"{kind} v_{name} = {{0}};\n" for name, kind in self.locals.items())
        linkage = "RARE static" if is_rare(self.function) else "static"
        return f"{linkage} {self.results} {self.symbol}({taken})\n{{\n{made}{body}\n}}"

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
            case ast.Assign([first, *others], value):
                yield from self.assignment(first, value)
                for other in others:
                    yield from self.assignment(other, first)
            case ast.AnnAssign(ast.Name(name), ast.Name(kind), ast.expr() as value, 1):
                self.locals[name] = {"int": INT, "float": FLOAT, "str": TEXT}[kind]
                yield from self.assignment(node.target, value)
            case ast.AugAssign(target, operator, value):
                yield from self.assignment(target, ast.BinOp(target, operator, value))
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
                yield f"return {'' if value is None else self.fitting(self.results, value)};"
            case ast.Raise():
                yield "f_fail();"
            case ast.Delete([ast.Subscript(of, index)]):
                queue, text = self.typed(of)
                yield f"{queue[:-2]}_del({text}, {self.value(index)});"
            case ast.Break():
                yield "break;"
            case ast.Continue():
                yield "continue;"
            case _:
                raise self.refused(node)

    def loop(self, name: str, over: ast.expr, body: list[ast.stmt]) -> Iterator[str]:
        self.loops += 1
        at, step, count = (f"{letter}{self.loops}" for letter in "qin")
        match over:
            case ast.Call(ast.Name("range"), [ends]):
                first, end, by = "0", self.value(ends), "1"
            case ast.Call(ast.Name("range"), [begin, ends, *steps]):
                first, end = self.value(begin), self.value(ends)
                by = self.value(steps[0]) if steps else "1"
            case ast.Tuple(values):
                listed = ", ".join(self.value(value) for value in values)
                yield f"{{ int64_t {at}[] = {{{listed}}};"
                first, end, by = "0", f"{len(values)}", "1"
            case ast.Name() | ast.Attribute():
                queue, text = self.typed(over)
                yield f"{{ {queue}{at} = {text};"
                first, end, by = "0", f"{at}->count", "1"
            case _:
                raise self.refused(over)
        ends_ = f"for (int64_t {step} = {first}, {count} = {end}, by = {by};"
        if isinstance(over, ast.Call):
            yield f"if ({by} < 1) f_fail(); {ends_} {step} < {count}; {step} += by) {{"
            yield f"{self.place(ast.Name(name), INT)} = {step};"
        elif isinstance(over, ast.Tuple):
            yield f"{ends_} {step} < {count}; {step} += by) {{"
            yield f"{self.place(ast.Name(name), INT)} = {at}[{step}];"
        else:
            kind, element = self.held(queue, f"{queue[:-2]}_at({at}, {step})")
            yield f"{ends_} f_same({at}->count, {count}), {step} < {count}; {step} += by) {{"
            yield f"{self.place(ast.Name(name), kind)} = {element};"
        yield from self.block(body)
        yield "}" if isinstance(over, ast.Call) else "}}"

    def assignment(self, target: ast.expr, value: ast.expr) -> Iterator[str]:
        match target, value:
            case ast.Tuple(targets), ast.Tuple(values):
                sources = [self.typed(source) for source in values]
                made = "".join(
                    f"{kind} t{at} = {text}; " for at, (kind, text) in enumerate(sources)
                )
                yield f"{{ {made}"
                for at, (element, (kind, _)) in enumerate(zip(targets, sources, strict=True)):
                    yield self.stored(element, kind, f"t{at}")
                yield "}"
            case ast.Tuple(targets), _:
                yield f"{{ tuple{len(targets)} all = {self.value(value)};"
                for at, element in enumerate(targets):
                    yield self.stored(element, INT, f"all.f{at}")
                yield "}"
            case _:
                yield self.stored(target, *self.typed(value))

    def stored(self, target: ast.expr, kind: str, text: str) -> str:
        """The statement that stores a value; it fails if an array has no room for that number."""
        if isinstance(target, ast.Subscript):
            of, array_text = self.typed(target.value)
            if of.startswith("a_"):
                self.check_fits(INT, kind, target)
                return f"{of}_set({array_text}, {self.index(target, array_text)}, {text});"
        return f"{self.place(target, kind)} = {text};"

    def place(self, target: ast.expr, kind: str) -> str:
        """What is assigned to; a new variable has this type."""
        if not isinstance(target, ast.Name):
            stored, text = self.typed(target)
            self.check_fits(stored, kind, target)
            return text
        if target.id in self.parameters:
            self.check_fits(self.parameters[target.id], kind, target)
        else:
            earlier = self.locals.setdefault(target.id, kind)
            if earlier != kind and (earlier, kind) != (FLOAT, INT):
                raise self.refused(target)
        return f"v_{target.id}"

    # Expressions.

    def value(self, node: ast.expr) -> str:
        return self.typed(node)[1]

    def fitting(self, kind: str, node: ast.expr) -> str:
        """A value for a place of this type."""
        given, text = self.typed(node)
        self.check_fits(kind, given, node)
        return text

    def check_fits(self, kind: str, given: str, node: ast.expr) -> None:
        """TypeError for a float where an integer is stored, which C would cut off."""
        if (kind, given) == (INT, FLOAT):
            raise self.refused(node)

    def truth(self, node: ast.expr) -> str:
        kind, text = self.typed(node)
        if kind.startswith("q_"):
            return f"({text}->count != 0)"
        if kind not in (INT, FLOAT, TEXT):
            raise self.refused(node)
        return {INT: text, FLOAT: f"({text} != 0)", TEXT: f"(*{text} != 0)"}[kind]

    def typed(self, node: ast.expr) -> Typed:
        match node:
            case ast.Constant(str(text)):
                return TEXT, json.dumps(text)
            case ast.Constant(float(number)):
                return FLOAT, number.hex()
            case ast.Constant(int(number)):
                return INT, f"{int(number)}LL"
            case ast.Name(name):
                return self.variable(name, node)
            case ast.Attribute(of, name):
                return self.attribute(of, name)
            case ast.Subscript():
                return self.element(node)
            case ast.BinOp(left, operator, right):
                return self.arithmetic(self.typed(left), operator, self.typed(right), node)
            case ast.UnaryOp(ast.Not(), operand):
                return INT, f"(!{self.truth(operand)})"
            case ast.UnaryOp(sign, operand):
                kind, text = self.typed(operand)
                if kind == INT and isinstance(sign, ast.USub):
                    return kind, f"f_sub(0, {text})"
                return kind, f"({OPERATORS[type(sign)]}{text})"
            case ast.BoolOp():
                return self.either(node)
            case ast.IfExp(test, body, otherwise):
                (kind, text), (other, other_text) = self.typed(body), self.typed(otherwise)
                if kind != other:
                    raise self.refused(node)
                return kind, f"({self.truth(test)} ? {text} : {other_text})"
            case ast.Compare(first, operators, others):
                return INT, self.comparisons(first, operators, others)
            case ast.Tuple(values):
                listed = ", ".join(self.value(value) for value in values)
                return f"tuple{len(values)}", f"(tuple{len(values)}) {{{listed}}}"
            case ast.Call():
                return self.called(node)
            case _:
                raise self.refused(node)

    def either(self, node: ast.BoolOp) -> Typed:
        """`and` and `or`, which of integers select one of their values."""
        if any(self.typed(value)[0] in (FLOAT, TEXT) for value in node.values):
            raise self.refused(node)
        *tests, last = (self.truth(value) for value in node.values)
        if isinstance(node.op, ast.Or):
            return INT, f"({' ?: '.join((*tests, last))})"
        return INT, f"({' && '.join(tests)} ? {last} : 0)"

    def variable(self, name: str, node: ast.expr) -> Typed:
        if name in self.parameters or name in self.locals:
            return (self.parameters | self.locals)[name], f"v_{name}"
        constant = self.function.__globals__.get(name)
        if not isinstance(constant, int | float | str):
            raise self.refused(node)
        return self.typed(ast.Constant(constant))

    def attribute(self, of: ast.expr, name: str) -> Typed:
        struct, text = self.typed(of)
        kind = self.program.field(struct.removesuffix(" *"), name)
        inside = f"{text}->f_{name}"
        if kind.startswith(("q_", "r_")) and not kind.endswith("*"):
            return f"{kind} *", f"(&{inside})"
        return f"{kind} *" if kind.startswith("s_") else kind, inside

    def element(self, node: ast.Subscript) -> Typed:
        of, text = self.typed(node.value)
        if of.startswith("a_"):
            at = f"{of}_at({text}, {self.index(node, text)})"
            return (f"{of[2:]} *", at) if of.startswith("a_r_") else (INT, f"(int64_t) *{at}")
        if not of.startswith("q_"):
            raise self.refused(node)
        return self.held(of, f"{of[:-2]}_at({text}, {self.value(node.slice)})")

    def index(self, node: ast.Subscript, text: str) -> str:
        """The place of an element in an array, which may have rows."""
        match node.slice:
            case ast.Tuple([row, column]):
                return f"f_place({text}.row, {self.value(row)}, {self.value(column)})"
            case ast.Slice():
                raise self.refused(node)
            case at:
                return self.value(at)

    def held(self, queue: str, text: str) -> Typed:
        """An element of a queue: a number, or a record, which is referred to."""
        kind = queue.removeprefix("q_")
        if kind.startswith("r_"):
            return kind, f"(*{text})" if kind[:-2] in self.program.references else text
        return kind[:-2], f"(*{text})"

    def arithmetic(
        self, left: Typed, operator: ast.operator, right: Typed, node: ast.expr
    ) -> Typed:
        if FLOAT in (left[0], right[0]) or isinstance(operator, ast.Div):
            match operator:
                case ast.Div():
                    return FLOAT, f"f_divide({left[1]}, {right[1]})"
                case ast.Pow():
                    return FLOAT, f"f_pow({left[1]}, {right[1]})"
                case ast.Add() | ast.Sub() | ast.Mult():
                    sign = OPERATORS[type(operator)]
                    return FLOAT, f"((double) {left[1]} {sign} (double) {right[1]})"
        elif (left[0], right[0]) == (INT, INT):
            if name := CHECKED.get(type(operator)):
                return INT, f"f_{name}({left[1]}, {right[1]})"
            return INT, f"({left[1]} {OPERATORS[type(operator)]} {right[1]})"
        raise self.refused(node)

    def comparisons(
        self, first: ast.expr, operators: list[ast.cmpop], others: list[ast.expr]
    ) -> str:
        if isinstance(first, ast.Tuple) or isinstance(operators[0], ast.In | ast.NotIn):
            if len(operators) > 1:
                raise self.refused(first)
            if isinstance(first, ast.Tuple) and isinstance(others[0], ast.Tuple):
                return self.pairs(first, operators[0], others[0])
            return self.contained(self.typed(first), operators[0], others[0])
        terms, before = [], self.typed(first)
        for operator, other in zip(operators, others, strict=True):
            if isinstance(operator, ast.In | ast.NotIn):
                raise self.refused(other)
            after = self.typed(other)
            left, right = before[1], after[1]
            if isinstance(operator, ast.Is):
                if not before[0] == after[0] or before[0][:-2] not in self.program.references:
                    raise self.refused(other)
                return f"({left} == {right})"
            if before[0].startswith("r_") or after[0].startswith("r_"):
                raise self.refused(other)
            if {before[0], after[0]} == {INT, FLOAT}:
                left, right = (
                    f"f_exact({text})" if kind == INT else text for kind, text in (before, after)
                )
            if TEXT in (before[0], after[0]):
                left, right = f"strcmp({left}, {right})", "0"
            terms.append(f"{left} {OPERATORS[type(operator)]} {right}")
            before = after
        return f"({' && '.join(terms)})"

    def contained(self, searched: Typed, operator: ast.cmpop, other: ast.expr) -> str:
        """Whether a number is one of several, or a record that is referred to is in a queue."""
        if isinstance(other, ast.Name) and isinstance(
            values := self.function.__globals__.get(other.id), tuple
        ):
            other = ast.Tuple([ast.Constant(value) for value in values])
        if isinstance(other, ast.Tuple):
            if any(self.typed(each)[0] != INT for each in other.elts) or searched[0] != INT:
                raise self.refused(other)
            test = " || ".join(f"{searched[1]} == {self.value(value)}" for value in other.elts)
        else:
            queue, text = self.typed(other)
            test = f"{queue[:-2]}_find({text}, {searched[1]}) >= 0"
        return f"({'!' if isinstance(operator, ast.NotIn) else ''}({test}))"

    def pairs(self, left: ast.Tuple, operator: ast.cmpop, right: ast.Tuple) -> str:
        """Two pairs of numbers are compared by the first that differ. They are written twice, so
        they may call nothing."""
        if any(isinstance(each, ast.Call) for both in (left, right) for each in ast.walk(both)):
            raise self.refused(left)
        (a, b), (c, d) = ([self.value(each) for each in both.elts] for both in (left, right))
        sign = OPERATORS[type(operator)]
        return f"({a} == {c} ? {b} {sign} {d} : {a} {sign} {c})"

    # Calls.

    def called(self, node: ast.Call) -> Typed:
        match node.func:
            case ast.Attribute(ast.Call(ast.Name("super"), []), name):
                assert self.owner is not None
                function = vars(defining(self.owner, name, self.defined))[name]
                given = ["v_self", *self.arguments(function, node, skip=1)]
                return self.result(
                    function, self.program.method(self.owner, name, self.defined), given
                )
            case ast.Attribute(of, name):
                kind, text = self.typed(of)
                if kind.startswith("q_"):
                    return self.of_queue(kind, name, text, node.args)
                if kind == RANDOM:
                    return FLOAT, f"{RANDOM}_{name}({text})"
                owner = self.program.classes[kind.removesuffix(" *")]
                function = getattr(owner, name)
                given = [text, *self.arguments(function, node, skip=1)]
                return self.result(function, self.program.method(owner, name), given)
            case ast.Name(name):
                function = self.function.__globals__.get(name)
                if function is None:
                    return self.built_in(name, node)
                if isinstance(function, type):
                    return self.record(function, node)
                given = self.arguments(function, node, skip=0)
                if function in PRIMITIVES:
                    return INT, f"f_{name}({', '.join(given)})"
                return self.result(
                    function, self.program.function(function, symbol_of(function)), given
                )
        raise self.refused(node)

    def result(self, function: Function, symbol: str, given: list[str]) -> Typed:
        kind = self.program.type_of(get_type_hints(function)["return"])
        return kind, f"{symbol}({', '.join(given)})"

    def arguments(self, function: Function, node: ast.Call, *, skip: int) -> list[str]:
        """The arguments in the order of the parameters, with the defaults of those left out."""
        parameters = list(inspect.signature(function).parameters.values())[skip:]
        given: dict[str | None, ast.expr] = {
            keyword.arg: keyword.value for keyword in node.keywords
        }
        hints = get_type_hints(function)
        names = [parameter.name for parameter in parameters]
        given |= dict(zip(names, node.args, strict=False))
        if len(node.args) > len(names) or not given.keys() <= set(names):
            raise self.refused(node)
        return [
            self.fitting(
                self.program.type_of(hints[parameter.name]),
                given.get(parameter.name, ast.Constant(parameter.default)),
            )
            for parameter in parameters
        ]

    def record(self, kind: type, node: ast.Call) -> Typed:
        name = self.program.type_of(kind).removesuffix(" *")
        kinds = self.program.records[name].values()
        values = [
            self.fitting(member, argument)
            for member, argument in zip(kinds, node.args, strict=False)
        ]
        left = fields(kind)[len(values) :]
        values += [
            self.value(ast.Constant(field.default))
            for field in left
            if field.default is not MISSING
        ]
        made = f"({name}) {{{', '.join(values)}}}"
        return f"{name} *", f"new_{name}({made})" if name in self.program.references else f"&{made}"

    def of_queue(self, queue: str, name: str, text: str, given: list[ast.expr]) -> Typed:
        call = f"{queue[:-2]}_{name}"
        if name in ("append", "appendleft", "insert", "remove", "index"):
            *place, element = (self.value(each) for each in given)
            is_copied = queue.startswith("q_r_") and queue[2:-2] not in self.program.references
            words = ", ".join((text, *place, f"*{element}" if is_copied else element))
            return INT if name == "index" else "void", f"{call}({words})"
        if name == "clear":
            return "void", f"{call}({text})"
        return self.held(queue, f"{call}({text})")

    def built_in(self, name: str, node: ast.Call) -> Typed:
        arguments = [self.typed(argument) for argument in node.args]
        kinds, values = [kind for kind, _ in arguments], [text for _, text in arguments]
        match name, kinds:
            case (("min" | "max"), [_, _, *_]):
                kind = FLOAT if FLOAT in kinds else INT
                return kind, reduce(lambda left, right: f"{kind}_{name}({left}, {right})", values)
            case "abs", [kind]:
                return kind, f"{kind}_abs({values[0]})"
            case "len", [kind]:
                return INT, f"{values[0]}{'.length' if kind.startswith('a_') else '->count'}"
            case "bool", [_]:
                return INT, f"({self.truth(node.args[0])} != 0)"
            case "float", ["int64_t"]:
                return FLOAT, f"(double) {values[0]}"
            case (("int" | "round"), ["double"]):
                return INT, f"f_{name}({values[0]})"
            case "int", ["int64_t"]:
                return INT, values[0]
        raise self.refused(node)
