"""Methods of objects as C: what `labs.read.native.objects` has the machine's compiler translate.

A method of restricted Python works on `int`, `float`, `bool` and `str`, on other objects, on
records (dataclasses with slots), on deques of integers or records and lists of `str`, whose types
their class declares, on arrays, and on a `Random`. It has what `labs.read.native.to_c` permits, and
also attributes, float division, keywords, chained comparisons, `in`, `is`, `del`, comparisons of
pairs, `super()`, for over a deque, and tuples on both sides of an assignment. The type of any other
field is that of its value in the object at hand, and a method is that of the object's class.

A record is copied when it is appended, so nothing else may refer to it afterwards, and one that was
taken from a deque may not be used once the deque has changed. One that is compared by identity
(`eq=False`) is referred to, and lives until the function ends. Calls within one expression may be
made in any order. What Python would compute with more than 64 bits, or refuse, ends the C function
without a result.
"""

from __future__ import annotations

import ast
import inspect
import json
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import reduce
from random import Random
from typing import Any, Final, get_args, get_origin, get_type_hints

from labs.read.native.to_c import OPERATORS, Translation

INT, FLOAT, TEXT, RANDOM = "int64_t", "double", "string", "twister"
PLAIN: Final = {int: INT, bool: INT, float: FLOAT, str: TEXT, type(None): "void"}
ELEMENTS: Final = {"q": INT, "d": FLOAT}
CHECKED: Final[dict[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floor", ast.Mod: "mod",
    ast.LShift: "shift", ast.Pow: "power",
}  # fmt: skip
PRELUDE: Final = r"""
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef const char *string;
typedef struct { int64_t f0, f1; } tuple2;
static _Thread_local jmp_buf failed;
static _Noreturn void f_fail(void) { longjmp(failed, 1); }
#define CHECKED(name) static inline int64_t f_##name(int64_t a, int64_t b) \
{ int64_t all; if (__builtin_##name##_overflow(a, b, &all)) f_fail(); return all; }
CHECKED(add) CHECKED(sub) CHECKED(mul)
static inline int64_t f_floor(int64_t a, int64_t b)
{ if (!b || b == -1) f_fail(); return a / b - (a % b && (a < 0) != (b < 0)); }
static inline void f_same(int64_t a, int64_t b) { if (a != b) f_fail(); }
static inline int64_t f_mod(int64_t a, int64_t b) { return a - b * f_floor(a, b); }
static inline int64_t f_shift(int64_t a, int64_t b)
{ if (b < 0 || b > 62) f_fail(); return f_mul(a, 1LL << b); }
static inline int64_t f_power(int64_t a, int64_t b)
{ int64_t all = 1; while (b-- > 0) all = f_mul(all, a); return all; }
static inline int64_t f_round(double a)
{ if (!(fabs(a) < 9e18)) f_fail(); return llrint(a); }
static inline int64_t f_int(double a) { if (!(fabs(a) < 9e18)) f_fail(); return (int64_t) a; }
static inline double f_divide(double a, double b)
{ if (b == 0 || fabs(a) > 1LL << 53 || fabs(b) > 1LL << 53) f_fail(); return a / b; }
static inline double f_pow(double a, double b)
{ if (!(a >= 0) || (a == 0 && b <= 0)) f_fail(); return pow(a, b); }
#define PLAIN(type, name) \
static inline type name##_min(type a, type b) { return b < a ? b : a; } \
static inline type name##_max(type a, type b) { return b > a ? b : a; } \
static inline type name##_abs(type a) { return a < 0 ? -a : a; }
PLAIN(int64_t, int64_t) PLAIN(double, double)
#define QUEUE(name, type) \
typedef struct { type *at; int64_t first, count, room; } name; \
static void name##_grow(name *q) { \
    int64_t room = q->room ? 2 * q->room : 64; \
    type *at = malloc(room * sizeof *at); \
    if (!at) f_fail(); \
    for (int64_t n = 0; n < q->count; n++) at[n] = q->at[(q->first + n) & (q->room - 1)]; \
    free(q->at); q->at = at; q->first = 0; q->room = room; } \
static inline type *name##_at(name *q, int64_t n) { \
    if (n < 0) n += q->count; \
    if (n < 0 || n >= q->count) f_fail(); \
    return &q->at[(q->first + n) & (q->room - 1)]; } \
static inline void name##_append(name *q, type element) { \
    if (q->count == q->room) name##_grow(q); \
    q->at[(q->first + q->count++) & (q->room - 1)] = element; } \
static inline void name##_appendleft(name *q, type element) { \
    if (q->count == q->room) name##_grow(q); \
    q->first = (q->first - 1) & (q->room - 1); q->count++; q->at[q->first] = element; } \
static inline type *name##_pop(name *q) \
{ type *element = name##_at(q, -1); q->count--; return element; } \
static inline type *name##_popleft(name *q) { \
    type *element = name##_at(q, 0); \
    q->first = (q->first + 1) & (q->room - 1); q->count--; return element; } \
static inline void name##_clear(name *q) { q->first = q->count = 0; } \
static inline void name##_del(name *q, int64_t n) { \
    name##_at(q, n); \
    for (n += n < 0 ? q->count : 0; n + 1 < q->count; n++) \
        *name##_at(q, n) = *name##_at(q, n + 1); \
    q->count--; } \
static inline void name##_insert(name *q, int64_t n, type element) { \
    if (n < 0 || n > q->count) f_fail(); \
    name##_append(q, element); \
    for (int64_t m = q->count - 1; m > n; m--) *name##_at(q, m) = *name##_at(q, m - 1); \
    *name##_at(q, n) = element; }
#define REFERENCES(name, type) \
typedef type *p_##type; \
QUEUE(name, p_##type) \
static inline int64_t name##_find(name *q, type *element) \
{ for (int64_t n = 0; n < q->count; n++) if (*name##_at(q, n) == element) return n; return -1; } \
static inline int64_t name##_index(name *q, type *element) \
{ int64_t n = name##_find(q, element); if (n < 0) f_fail(); return n; } \
static inline void name##_remove(name *q, type *element) \
{ name##_del(q, name##_index(q, element)); } \
static inline type *new_##type(type element) \
{ type *made = f_kept(sizeof element); *made = element; return made; }
typedef struct kept { struct kept *before; int64_t used; char at[1 << 20]; } kept;
static _Thread_local kept *f_all;
static void *f_kept(int64_t size)
{
    size = (size + 15) & ~15LL;
    if (!f_all || f_all->used + size > (int64_t) sizeof f_all->at) {
        kept *more = malloc(sizeof *more);
        if (!more) f_fail();
        more->before = f_all; more->used = 0; f_all = more;
    }
    f_all->used += size;
    return f_all->at + f_all->used - size;
}
static void f_forget(void)
{ while (f_all) { kept *block = f_all; f_all = block->before; free(block); } }
/* Matsumoto and Nishimura, Mersenne Twister, 1998: 624 words, and the place of the next one. */
typedef uint32_t twister;
static uint32_t twister_word(twister *words)
{
    if (words[624] >= 624) {
        for (int n = 0; n < 624; n++) {
            uint32_t both = (words[n] & 0x80000000u) | (words[(n + 1) % 624] & 0x7fffffffu);
            words[n] = words[(n + 397) % 624] ^ both >> 1 ^ (both & 1 ? 0x9908b0dfu : 0);
        }
        words[624] = 0;
    }
    uint32_t word = words[words[624]++];
    word ^= word >> 11; word ^= word << 7 & 0x9d2c5680u; word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}
static double twister_random(twister *words)
{ uint32_t high = twister_word(words) >> 5, low = twister_word(words) >> 6;
  return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0); }
QUEUE(q_int64_t, int64_t)
QUEUE(q_double, double)
QUEUE(q_string, string)
void release(void *at) { free(at); }
"""
Typed = tuple[str, str]
"""The type of an expression in C, and its text."""


class Program:
    """What a method needs: the structures of the objects, and every method that is called.

    `objects` has one object of each class.
    """

    def __init__(self, objects: dict[type, object]) -> None:
        self.objects = objects
        self.hints = {kind: get_type_hints(kind) for kind in objects}
        self.classes = {f"s_{kind.__name__}": kind for kind in objects}
        self.structs: dict[str, dict[str, str]] = {name: {} for name in self.classes}
        self.records: dict[str, dict[str, str]] = {}
        self.references: set[str] = set()
        self.bodies: dict[str, str] = {}
        self.heads: list[str] = []

    def text(self, owner: type, method: str) -> str:
        """The C file that exports the method, and the layout of the structures, as JSON."""
        called = self.method(owner, method)
        layout = json.dumps(json.dumps(self.structs))
        structs = [f"typedef struct {name} {name};" for name in self.structs]
        for name, record in self.records.items():
            queue = "REFERENCES" if name in self.references else "QUEUE"
            structs.append(f"{_struct(name, record)}\n{queue}(q_{name}, {name})")
        structs += [_struct(name, members) for name, members in self.structs.items()]
        return "\n".join(
            (
                *(PRELUDE, *structs, *self.heads, *self.bodies.values()),
                f"const char layout[] = {layout};",
                f"int64_t perform(s_{owner.__name__} *self)",
                f"{{ int64_t done = 0; if (!setjmp(failed)) {{ {called}(self); done = 1; }}",
                "f_forget(); return done; }",
            )
        )

    def method(self, owner: type, name: str, after: type | None = None) -> str:
        """The symbol of a method, which is translated at its first call: that of the owner's class,
        or the next one `after` a class that it inherits from."""
        defined = defining(owner, name, after)
        symbol = "_".join((owner.__name__, *((defined.__name__,) if after else ()), name))
        return self.function(vars(defined)[name], symbol, owner, defined)

    def function(
        self,
        function: Callable[..., Any],
        symbol: str,
        owner: type | None = None,
        defined: type | None = None,
    ) -> str:
        if symbol not in self.bodies:
            self.bodies[symbol] = ""
            made = _Body(self, function, symbol, owner, defined)
            self.bodies[symbol] = made.text()
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
        if get_origin(hint) is tuple:
            return f"tuple{len(get_args(hint))}"
        if get_origin(hint) is deque:
            (kind,) = get_args(hint)
            return f"q_{self.type_of(kind).removesuffix(' *')} *"
        if not isinstance(hint, type) or not is_dataclass(hint) or not hasattr(hint, "__slots__"):
            raise TypeError(f"{hint} has no type in C")
        name = f"r_{hint.__name__}"
        if name not in self.records:
            hints = get_type_hints(hint)
            if hint.__eq__ is object.__eq__:
                self.references.add(name)
            self.records[name] = {field: self.type_of(kind) for field, kind in hints.items()}
        return f"{name} *"


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


class _Body(Translation):
    """One method, or a function that one calls."""

    def __init__(
        self,
        program: Program,
        function: Callable[..., Any],
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

    # Statements.

    def statement(self, node: ast.stmt) -> Iterator[str]:
        match node:
            case ast.Assign([target], value):
                yield from self.assignment(target, value)
            case ast.Assign([first, *others], value):
                yield from self.assignment(first, value)
                for other in others:
                    yield from self.assignment(other, first)
            case ast.AnnAssign(ast.Name(name), ast.Name(kind), ast.expr() as value, 1):
                self.locals[name] = {"int": INT, "float": FLOAT, "str": TEXT}[kind]
                yield from self.assignment(node.target, value)
            case ast.AugAssign(target, operator, value):
                both = ast.BinOp(target, operator, value)
                yield f"{self.place(target)} = {self.value(both)};"
            case ast.Raise():
                yield "f_fail();"
            case ast.Delete([ast.Subscript(of, index)]):
                queue, text = self.typed(of)
                yield f"{queue[:-2]}_del({text}, {self.value(index)});"
            case _:
                yield from super().statement(node)

    def loop(self, name: str, over: ast.expr, body: list[ast.stmt]) -> Iterator[str]:
        if not isinstance(over, ast.Name | ast.Attribute):
            yield from super().loop(name, over, body)
            return
        self.loops += 1
        queue, text = self.typed(over)
        at, step, count = (f"{letter}{self.loops}" for letter in "qin")
        kind, element = self.held(queue, f"{queue[:-2]}_at({at}, {step})")
        yield f"{{ {queue}{at} = {text}; int64_t {count} = {at}->count;"
        goes_on = f"f_same({at}->count, {count}), {step} < {count}"
        yield f"for (int64_t {step} = 0; {goes_on}; {step}++) {{"
        yield f"{self.place_of(ast.Name(name), kind)} = {element};"
        yield from self.block(body)
        yield "}}"

    def assignment(self, target: ast.expr, value: ast.expr) -> Iterator[str]:
        match target, value:
            case ast.Tuple(targets), ast.Tuple(values):
                sources = [self.typed(source) for source in values]
                made = "".join(
                    f"{kind} t{at} = {text}; " for at, (kind, text) in enumerate(sources)
                )
                yield f"{{ {made}"
                for at, (element, (kind, _)) in enumerate(zip(targets, sources, strict=True)):
                    yield f"{self.place_of(element, kind)} = t{at};"
                yield "}"
            case ast.Tuple(targets), _:
                yield f"{{ tuple{len(targets)} all = {self.value(value)};"
                for at, element in enumerate(targets):
                    yield f"{self.place_of(element, INT)} = all.f{at};"
                yield "}"
            case _:
                kind, text = self.typed(value)
                yield f"{self.place_of(target, kind)} = {text};"

    def place(self, target: ast.expr, array: ast.expr | None = None) -> str:
        return self.place_of(target, INT)

    def place_of(self, target: ast.expr, kind: str) -> str:
        """What is assigned to; a new variable has this type."""
        if not isinstance(target, ast.Name):
            return self.value(target)
        if target.id not in self.parameters:
            earlier = self.locals.setdefault(target.id, kind)
            if earlier != kind and (earlier, kind) != (FLOAT, INT):
                raise self.refused(target)
        return f"v_{target.id}"

    # Expressions.

    def value(self, node: ast.expr) -> str:
        return self.typed(node)[1]

    def truth(self, node: ast.expr) -> str:
        kind, text = self.typed(node)
        if kind.startswith("q_"):
            return f"({text}->count != 0)"
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
            case ast.Subscript(of, index):
                queue, text = self.typed(of)
                return self.held(queue, f"{queue[:-2]}_at({text}, {self.value(index)})")
            case ast.BinOp(left, operator, right):
                return self.arithmetic(self.typed(left), operator, self.typed(right), node)
            case ast.UnaryOp(ast.Not(), operand):
                return INT, f"(!{self.truth(operand)})"
            case ast.UnaryOp(sign, operand):
                kind, text = self.typed(operand)
                return kind, f"({OPERATORS[type(sign)]}{text})"
            case ast.BoolOp(word, values):
                operands = [self.typed(value) for value in values]
                if any(kind in (FLOAT, TEXT) for kind, _ in operands):
                    raise self.refused(node)
                # Of integers `and` and `or` select one of their values.
                *tests, last = (self.truth(value) for value in values)
                if isinstance(word, ast.Or):
                    return INT, f"({' ?: '.join((*tests, last))})"
                return INT, f"({' && '.join(tests)} ? {last} : 0)"
            case ast.IfExp(test, body, otherwise):
                kind, text = self.typed(body)
                return kind, f"({self.truth(test)} ? {text} : {self.value(otherwise)})"
            case ast.Compare(first, operators, others):
                return INT, self.comparisons(first, operators, others)
            case ast.Tuple(values):
                listed = ", ".join(self.value(value) for value in values)
                return f"tuple{len(values)}", f"(tuple{len(values)}) {{{listed}}}"
            case ast.Call():
                return self.called(node)
            case _:
                raise self.refused(node)

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
        if kind.startswith("q_"):
            return f"{kind} *", f"(&{text}->f_{name})"
        return f"{kind} *" if kind.startswith("s_") else kind, f"{text}->f_{name}"

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
        terms, before = [], self.typed(first)
        for operator, other in zip(operators, others, strict=True):
            if isinstance(first, ast.Tuple) or isinstance(operator, ast.In | ast.NotIn):
                if len(operators) > 1:
                    raise self.refused(first)
                if isinstance(first, ast.Tuple) and isinstance(other, ast.Tuple):
                    return self.pairs(first, operator, other)
                return self.contained(before, operator, other)
            after = self.typed(other)
            left, right = before[1], after[1]
            if isinstance(operator, ast.Is):
                if not before[0] == after[0] or before[0][:-2] not in self.program.references:
                    raise self.refused(other)
                return f"({left} == {right})"
            if before[0].startswith("r_") or after[0].startswith("r_"):
                raise self.refused(other)
            if TEXT in (before[0], after[0]):
                left, right = f"strcmp({left}, {right})", "0"
            terms.append(f"{left} {OPERATORS[type(operator)]} {right}")
            before = after
        return f"({' && '.join(terms)})"

    def contained(self, searched: Typed, operator: ast.cmpop, other: ast.expr) -> str:
        """Whether a number is one of several, or a record that is referred to is in a queue."""
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
                symbol = self.program.method(self.owner, name, self.defined)
                return self.result(function, symbol, given)
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
                return self.result(function, self.program.function(function, name, None), given)
        raise self.refused(node)

    def result(self, function: Callable[..., Any], symbol: str, given: list[str]) -> Typed:
        kind = self.program.type_of(get_type_hints(function)["return"])
        return kind, f"{symbol}({', '.join(given)})"

    def arguments(self, function: Callable[..., Any], node: ast.Call, *, skip: int) -> list[str]:
        """The arguments in the order of the parameters, with the defaults of those left out."""
        parameters = list(inspect.signature(function).parameters.values())[skip:]
        given: dict[str | None, ast.expr] = {
            keyword.arg: keyword.value for keyword in node.keywords
        }
        given |= dict(zip((parameter.name for parameter in parameters), node.args, strict=False))
        return [
            self.value(given.get(parameter.name, ast.Constant(parameter.default)))
            for parameter in parameters
        ]

    def record(self, kind: type, node: ast.Call) -> Typed:
        name = self.program.type_of(kind).removesuffix(" *")
        values = [self.value(argument) for argument in node.args]
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
            case "len", [_]:
                return INT, f"{values[0]}->count"
            case "bool", [_]:
                return INT, f"({self.truth(node.args[0])} != 0)"
            case "float", ["int64_t"]:
                return FLOAT, f"(double) {values[0]}"
            case (("int" | "round"), ["double"]):
                return INT, f"f_{name}({values[0]})"
            case "int", ["int64_t"]:
                return INT, values[0]
        raise self.refused(node)
