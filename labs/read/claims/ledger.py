"""The ledger: what an article says, read from its TOML file and checked.

    [article]                     number, title, lab, kernels; author and date, if known; first, the
                                  number of its first claim, if another lab has those before it
    [article.parameters]          the article's own, by the names of the lab's parameters
    [[claim]]
      id, statement, expected, unit
      tolerance_pct, tolerance_reason    how far a figure may deviate from the article's, and why
      conditions                  whose runs are judged; `*` as in names of files
      parameters                  those that the claim depends on; "link" means all of the link's
      figure_parameters           further ones that a single figure depends on, by its name
      requires                    by condition: columns of its results, and the values they may have
      column                      judged by a column of its condition's results; or
      rule                        by a rule over columns of conditions (labs.read.claims.judge); or
      judge                       by the judging function of this name
      because, because_not        the reason as a sentence (labs.read.claims.formulas), if the
                                  claim holds, and otherwise
      beside                      further conditions that the rule and the sentences may name
      arguments                   figures that the judging function takes, or that formulas name
      shown                       figures that are shown, and not judged
      rows                        the article's own results: figures by condition and column
      shown_at                    parameters that a run must share to be shown with the article's
                                  figures (default: those of the claim)
      hardware                    true: a figure of the author's machine, shown and not judged
      major                       true: a main claim, which is shown first
      changed, source             why kernels may differ on it, and the commits

`expected` and `column` are one, or several by name. There is no field for a verdict, or for a
kernel on which it holds. The file is checked against article.schema.json. `has_articles_parameters`
says whether a run can be compared with a claim's figures; `figures_by_column` and `figure_of_claim`
return those that can.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import unknown
from labs.drive.record.stored_files import read_bytes
from labs.errors import BadInput, Damaged
from labs.read.claims.formulas import Formula, check, parse
from labs.read.display.format import printable
from labs.read.json_schema import objection

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

    from labs.guest.condition import Condition
    from labs.read.runs.run import Run

SCHEMA = Path(__file__).with_name("article.schema.json")
LINK = ("rate_mbit", "delay_ms", "loss_pct", "jitter_ms", "shaped_at")
RATIO = "~"
"""Between two conditions: the ratio of a column's medians, with its interval."""
WILD = "*?"
"""Wildcards in the names of conditions: for any characters, and for one character."""
MOST_BYTES, LONGEST_LINE = 1 << 20, 10_000
ALLOWED = f"Allowed: a TOML file of at most {MOST_BYTES:,} bytes"
LARGEST = 1e300
SHOWN = 200
"""The number of a value's characters that a message shows."""
NAMED = ("measured", "factor", "within")
"""What a sentence or a comparison may name besides the figures of its claim."""
COMPARED = ("within", "at_most", "at_least")
"""Rules that compare each figure with the article's."""
TESTS = ("all", "each")
Figure = float | str | Mapping[str, float | str]
"""One figure, or several by name; text where the article gives no number."""
Value = float | str | None
OwnParameter = Callable[["Run", str], Value]
"""The value of a parameter that is neither of the link nor a setting, by the lab; else None."""
Formulas = Mapping[str, str]
"""Formulas by the names of the figures; one alone has the empty name."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How a claim is judged; the docstring of `labs.read.claims.judge` says what each field means.

    `comparisons` are those of the kinds `all` and `each`.
    """

    kind: str
    figures: Formulas = field(default_factory=dict)
    comparisons: Sequence[str] = ()
    predicted: Formulas = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    judged_if: Mapping[str, str] = field(default_factory=dict)
    happens: Mapping[str, str] = field(default_factory=dict)
    wrong_unless: Sequence[str] = ()
    right_number: Sequence[str] = ()
    exact: Sequence[str] = ()
    by_source: Formulas = field(default_factory=dict)
    factor: str = ""
    partly: bool = False
    degree: bool = True

    @property
    def formulas(self) -> Iterator[str]:
        for table in (self.figures, self.predicted, self.names, self.happens, self.by_source):
            yield from table.values()
        for tests in (self.comparisons, self.wrong_unless, self.right_number):
            yield from tests
        yield from (*self.needs, *self.judged_if, *filter(None, [self.factor]))

    @property
    def reasons(self) -> Iterable[str]:
        """Why nothing is judged, as sentences."""
        return (*self.needs.values(), *self.judged_if.values())


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim; the module's docstring says what each field means."""

    id: str
    statement: str
    expected: Figure
    unit: str
    tolerance_pct: float | None = None
    tolerance_reason: str = ""
    conditions: Sequence[str] = ()
    parameters: Sequence[str] = ()
    figure_parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    requires: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    columns: Formulas = field(default_factory=dict)
    rule: Rule | None = None
    because: str = ""
    because_not: str = ""
    beside: Sequence[str] = ()
    judge: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    shown: Sequence[str] = ()
    rows: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    shown_at: Sequence[str] = ()
    hardware: bool = False
    major: bool = False
    changed: str = ""
    source: str = ""

    @property
    def allowed(self) -> float:
        """The tolerance as a share; 0 where there is none."""
        return (self.tolerance_pct or 0.0) / 100

    @property
    def factors(self) -> tuple[float, float]:
        """How far a figure may be below and above the article's: two factors. A tolerance of more
        than 100 % is one either way."""
        most = 1 + self.allowed
        return (1 - self.allowed if self.allowed <= 1 else 1 / most), most

    @property
    def figures(self) -> Mapping[str, Any]:
        """The article's figures by name, numbers or texts; one alone has the empty name."""
        return {
            name: value if isinstance(value, str) else float(value)
            for name, value in by_name(self.expected).items()
        }

    @property
    def figure(self) -> float:
        """The article's one number; BadInput if `expected` is not one."""
        if not isinstance(self.expected, int | float):
            raise BadInput(f"{self.id}: expected must be one number, as its judge needs")
        return float(self.expected)

    @property
    def given(self) -> Mapping[str, Any]:
        """What formulas and sentences may name that is not measured."""
        expected = {f"expected {name}".strip(): value for name, value in self.figures.items()}
        return {**self.arguments, "allowed": self.allowed, "expected": self.expected, **expected}

    @property
    def needed(self) -> Sequence[str]:
        """The conditions that are judged, and those whose results are required."""
        return list(dict.fromkeys((*self.conditions, *self.requires)))

    def without(self, names: Iterable[str]) -> Claim:
        """The claim without some of its figures."""

        def rest(figures: Any) -> Any:
            if not isinstance(figures, Mapping):
                return figures
            return {name: value for name, value in figures.items() if name not in names}

        rule = self.rule and replace(
            self.rule, figures=rest(self.rule.figures), predicted=rest(self.rule.predicted)
        )
        return replace(self, expected=rest(self.expected), columns=rest(self.columns), rule=rule)

    @property
    def references(self) -> Iterable[str]:
        """The columns that the rule and the sentences name, most as `condition.column`."""
        names, formulas = {*NAMED, *self.given, *self.figures}, list[Formula]()
        sentences = [self.because, self.because_not]
        if self.rule is not None:
            names |= {*self.rule.figures, *self.rule.happens, *self.rule.names}
            formulas += map(parse, self.rule.formulas)
            sentences += self.rule.reasons
        for sentence in sentences:
            formulas += check(sentence)
        every = [name for formula in formulas for name in formula.references.values()]
        return [name for name in dict.fromkeys(every) if name.strip("{}") not in names]


@dataclass(frozen=True, kw_only=True)
class Article:
    """An article's claims, and what it was measured with."""

    number: int
    title: str
    lab: str
    kernels: str
    parameters: Mapping[str, float | str]
    claims: tuple[Claim, ...]
    author: str = ""
    date: str = ""
    first: int = 1

    @property
    def citation(self) -> str:
        """Number, title, author and date, as far as they are known."""
        origin = "; ".join(filter(None, (self.author, self.date)))
        return f"article {self.number}: {self.title}{f' ({origin})' if origin else ''}"

    def claim(self, id_: str) -> Claim:
        """The claim of that id; BadInput, with those there are, for another."""
        by_id = {claim.id: claim for claim in self.claims}
        if id_ not in by_id:
            raise BadInput(unknown(id_, by_id, f"claim of article {self.number}"))
        return by_id[id_]


def by_name(value: Any) -> Mapping[str, Any]:
    """Values by name; one alone has the empty name."""
    return value if isinstance(value, Mapping) else {"": value}


def as_figure(figures: Mapping[str, Any]) -> Figure | None:
    """Figures by name, without those that are unknown; one alone has the empty name."""
    there = {name: value for name, value in figures.items() if value is not None}
    return there.get("", there or None)


def read(path: Path) -> Article:
    """Read a ledger; BadInput, in one line with the file and the claim's id, if it is not one."""
    content = _content(path)
    _check_schema(path.name, content)
    head = content["article"]
    claims = [_claim(path.name, entry, head["parameters"]) for entry in content.get("claim", ())]
    article = Article(**head, claims=tuple(claims))
    _check_order(path.name, article)
    return article


def _content(path: Path) -> dict[str, Any]:
    """What the file has in TOML; BadInput for what cannot be a ledger."""
    try:
        data = read_bytes(path, most_bytes=MOST_BYTES, follow=True, next_step=ALLOWED)
        text = data.decode("utf-8")
        if max(map(len, text.splitlines()), default=0) > LONGEST_LINE:
            raise ValueError(f"it has a line of more than {LONGEST_LINE:,} characters. Break it")
        content = tomllib.loads(text)
        _check_parts(content)
        return content
    except Damaged as error:
        raise BadInput(f"{path.name} is not a ledger: {error}") from error
    except ValueError as error:
        raise BadInput(f"{path.name}: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise BadInput(f"{path.name}: it is nested too deeply. {ALLOWED}") from None


def _check_parts(part: Any) -> None:
    """ValueError for what TOML can say and nothing here can use, however deep: numbers that are not
    finite or beyond all measure, and characters that are not printed."""
    if isinstance(part, dict | list):
        for inner in (*part, *part.values()) if isinstance(part, dict) else part:
            _check_parts(inner)
    if isinstance(part, str) and not part.isprintable():
        what = printable(part)[:SHOWN]
        raise ValueError(f"{what} has a control character. Allowed: printable text in one line")
    if isinstance(part, int | float) and not -LARGEST <= part <= LARGEST:
        raise ValueError(f"{str(part)[:SHOWN]} is not a finite number. Allowed: up to {LARGEST:g}")


def _check_order(file: str, article: Article) -> None:
    """BadInput unless the ids count from the article's first; parts of one claim have its number
    and a letter."""
    number, letter = article.first - 1, ""
    for claim in article.claims:
        allowed = [f"A{article.number}.{number + 1}", f"A{article.number}.{number + 1}a"]
        if letter:
            allowed.insert(0, f"A{article.number}.{number}{chr(ord(letter) + 1)}")
        if claim.id not in allowed:
            raise BadInput(
                f"{file}, {claim.id}: claims are numbered in order. "
                f"Allowed here: {' or '.join(allowed)}"
            )
        ending = claim.id.rpartition(".")[2]
        letter = ending[-1] if ending[-1].isalpha() else ""
        number = int(ending.removesuffix(letter))


def _claim(file: str, entry: Mapping[str, Any], parameters: Mapping[str, Any]) -> Claim:
    """A claim that fits the schema; BadInput, with its place, for what the schema cannot say."""
    try:
        of_figures = entry.get("figure_parameters", {})
        changed: dict[str, Any] = {
            "parameters": _parameters(entry.get("parameters", ()), parameters),
            "shown_at": _parameters(entry.get("shown_at", ()), parameters),
            "figure_parameters": {
                figure: _parameters(names, parameters) for figure, names in of_figures.items()
            },
            "columns": by_name(entry["column"]) if "column" in entry else {},
            "rule": _rule(entry["rule"]) if "rule" in entry else None,
        }
        claim = Claim(**{name: entry[name] for name in entry if name != "column"} | changed)
        _check_figures(claim)
        _check_references(claim)
    except BadInput as error:
        raise BadInput(f"{file}, {entry['id']}: {error}") from error
    return claim


def _rule(declared: Mapping[str, Any]) -> Rule:
    """A rule that fits the schema: `all` or `each` of the comparisons, or a kind with its
    figures."""
    kind = next(name for name in (*TESTS, *COMPARED, "shown") if name in declared)
    rest = {name: value for name, value in declared.items() if name not in (kind, "measured")}
    rest |= {name: by_name(rest[name]) for name in ("predicted", "by_source") if name in rest}
    if kind not in TESTS:
        return Rule(kind=kind, figures=by_name(declared[kind]), **rest)
    figures = by_name(declared.get("measured", {}))
    return Rule(kind=kind, figures=figures, comparisons=declared[kind], **{"degree": False, **rest})


def _parameters(names: Iterable[str], parameters: Mapping[str, Any]) -> Sequence[str]:
    """The parameters that are named, with those of the link; BadInput for an unknown one."""
    every = [each for name in names for each in (LINK if name == "link" else (name,))]
    for name in every:
        _check_name(name, ["link", *parameters], "parameter")
    return every


def _check_name(name: str, allowed: Iterable[str], what: str) -> None:
    """BadInput for a name that is not one of those that are allowed."""
    if name not in allowed:
        raise BadInput(unknown(name, filter(None, allowed), what))


def _check_figures(claim: Claim) -> None:
    """BadInput for figures that the article does not have, or that cannot be compared."""
    figures, rule = claim.figures, claim.rule
    for figure in (*claim.figure_parameters, *claim.shown):
        _check_name(figure, figures, "figure")
    if claim.columns and claim.columns.keys() != figures.keys():
        raise BadInput("expected and column must name the same figures")
    if claim.columns and not claim.hardware and 0 in figures.values():
        raise BadInput("expected is 0, for which no tolerance in % is possible. Name a judge")
    if rule is not None and rule.kind in COMPARED and figures.keys() - rule.figures:
        raise BadInput("rule must name the figures of expected")


def _check_references(claim: Claim) -> None:
    """BadInput for a formula or a sentence that cannot be read, and for a condition or a figure
    that the claim does not have."""
    patterns = (*claim.needed, *claim.beside)
    for reference in claim.references:
        if reference.startswith("{"):
            _check_name(reference.strip("{}"), claim.figures, "figure")
        for name in filter(None, reference.rpartition(".")[0].split(RATIO)):
            if not any(fnmatchcase(name, pattern) for pattern in patterns):
                raise BadInput(unknown(name, patterns, "condition of the claim"))


def has_number(figure: Figure) -> bool:
    """Whether the article gives a number, or several."""
    return any(isinstance(value, int | float) for value in by_name(figure).values())


def tolerance_in_words(tolerance_pct: float) -> str:
    """`5 %`; of more than 100 %, the factor: `a factor of 3.2 either way`."""
    if tolerance_pct <= 100:
        return f"{tolerance_pct:g} %"
    return f"a factor of {1 + tolerance_pct / 100:.2g} either way"


def _check_schema(file: str, content: Mapping[str, Any]) -> None:
    """BadInput for the first objection of the schema."""
    error = objection(SCHEMA, content)
    if error is None:
        return
    path = list(error.absolute_path)
    if path[:1] == ["claim"] and len(path) > 1:
        claim = content["claim"][path[1]]
        id_ = claim.get("id") if isinstance(claim, dict) else None
        file, path = f"{file}, {id_ or f'claim number {int(path[1]) + 1}'}", path[2:]
    raise BadInput(f"{file}: {_objection(error, path)}")


def _objection(error: ValidationError, path: Sequence[str | int]) -> str:
    """What is wrong at a place of the file, and what is allowed there, as the nearest part of the
    schema around it says."""
    around: Any = error
    while around.parent is not None and "description" not in around.schema:
        around = around.parent
    schema, failed, instance = around.schema, str(around.validator), around.instance
    if "description" not in schema and failed == "additionalProperties":
        name = next(name for name in instance if name not in schema["properties"])
        return unknown(name, schema["properties"], "field")
    if "description" not in schema and failed == "required":
        missing = [name for name in schema["required"] if name not in instance]
        return f"it has no {' and no '.join(missing)}"
    allowed = str(schema.get("description", error.message))
    if not path or failed in ("oneOf", "required", "dependentRequired"):
        return allowed
    given = " ".join(repr(instance).split())
    return f"{'.'.join(map(str, path))} = {given[:SHOWN]} is not possible; {allowed}"


@cache
def article_beside(module: str) -> Article:
    """The claims of the article that a lab is about: the ledger beside this file of the lab."""
    (path,) = Path(module).parent.glob("article*.toml")
    return read(path)


def parameter(run: Run, name: str, of_lab: OwnParameter | None = None) -> Value:
    """The value of a lab parameter that a run was requested with; None if it does not say it."""
    value: Value = requested(run.condition_asked).get(name)
    return of_lab(run, name) if value is None and of_lab is not None else value


def requested(condition: Condition) -> Mapping[str, Any]:
    """The link and the settings of a condition, by name."""
    return asdict(condition.link) | dict(condition.settings)


def figures_by_column(
    article: Article, run: Run, of_lab: OwnParameter | None = None
) -> tuple[str, Mapping[str, float]] | None:
    """The claim that has figures for columns of this run's results, and these figures.

    None if no claim is about the run's condition, or the run's parameters are not the article's.
    """
    for claim in article.claims:
        figures = dict(claim.rows.get(run.condition, {}))
        if list(claim.conditions) == [run.condition]:
            figures |= {column: claim.figures[name] for name, column in claim.columns.items()}
        if figures:
            comparable = has_articles_parameters(article, run, claim.id, of_lab)
            return (claim.id, figures) if comparable else None
    return None


def figure_of_claim(
    article: Article, run: Run, id_: str, of_lab: OwnParameter | None = None
) -> float | None:
    """The one figure of a claim; None where the claim's conditions do not include the run, or
    the run's parameters are not the article's."""
    claim = article.claim(id_)
    about = any(fnmatchcase(run.condition, pattern) for pattern in claim.conditions)
    return claim.figure if about and has_articles_parameters(article, run, id_, of_lab) else None


def has_articles_parameters(
    article: Article, run: Run, id_: str, of_lab: OwnParameter | None = None
) -> bool:
    """Whether a run has the article's parameters, so that a claim's figures are shown with it."""
    claim = article.claim(id_)
    names = claim.shown_at or claim.parameters
    return all(parameter(run, name, of_lab) == article.parameters[name] for name in names)
