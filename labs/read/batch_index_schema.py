"""The columns of an index and the head of its file, as values and as an Arrow schema.

The schema is derived from the lab alone, so that the type of a column is known before the first
result arrives. Units and meanings are in the metadata of the fields; data about the whole file are
in the metadata of the schema, under the name `labs`. If a lab has a result with the name of a
parameter, such as `loss_pct`, the column of this name is the parameter, and the result is
`run_loss_pct`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from labs.drive.parameters.declare import KINDS, LabParameters, Scalar, declared
from labs.drive.record.stored_files import check_version, parse
from labs.drive.record.study_file import KEPT_ELSEWHERE
from labs.drive.result_columns import ComputedColumn, computed_columns
from labs.errors import BadInput, Damaged, Missing
from labs.read.exports.described_columns import Described, field_metadata
from labs.read.lab import BESIDE_RESULTS, OF_RUN, Lab

if TYPE_CHECKING:
    import pyarrow

INDEX_VERSION = 1
PARAMETER, RESULT, OWN = "parameter", "result", "own"
ROLES = (PARAMETER, RESULT, OWN)
MADE, MISSING, FAILED, DAMAGED = "made", "missing", "failed", "damaged"
STATUSES = (MADE, MISSING, FAILED, DAMAGED)
COPY_AGAIN = "Copy it again from its source, or write it again with labs batch"
HEAD, COLUMN = b"labs", b"labs.column"


@dataclass(frozen=True)
class IndexColumn:
    """A column of an index; `kind` is str, int, float or bool, and `role` one of ROLES.

    The other fields are those of `labs.drive.result_columns.Column`.
    """

    name: str
    kind: type[Scalar]
    role: str = RESULT
    unit: str = ""
    meaning: str = ""
    predicted_by: str | None = None
    hidden: bool = False
    headline: bool = False
    steady: bool = False


OF_THE_INDEX = (
    IndexColumn("point", int, OWN, meaning="number of the point, from 1"),
    IndexColumn("status", str, OWN, meaning=", ".join(STATUSES)),
    IndexColumn("message", str, OWN, meaning="why a run failed or cannot be read"),
    IndexColumn("repetition", int, OWN, meaning="number of the repetition, in real time"),
    IndexColumn("excluded", bool, OWN, meaning="its figures do not count: see notes"),
)
REQUIRED: Mapping[str, type] = {
    "point": int,
    **dict.fromkeys(("status", "message", "condition", "key", "digest"), str),
}
"""Columns without which a file is not an index."""
KINDS_OF_OWN: Mapping[str, type[Scalar]] = {column.name: column.kind for column in OF_THE_INDEX} | {
    f"{OF_RUN}{name}": kind for name, kind in BESIDE_RESULTS.items()
}
"""The kinds of the columns with these names, which cannot be parameters or results of a lab."""


@dataclass(frozen=True)
class Head:
    """The description of a batch in its index: the lab, the title, and the values of each axis.

    `digest` identifies the plan, `labs` is the version that wrote the file, and `reading` is the
    digest of the code that computed the results.
    """

    lab: str
    title: str
    axes: Mapping[str, tuple[Scalar, ...]]
    digest: str
    labs: str
    reading: str

    def as_json(self) -> dict[str, object]:
        return {"schema": INDEX_VERSION, **dataclasses.asdict(self)}


def arrow(what: object) -> ModuleType:
    """The package pyarrow; Missing, in one line, if it is not installed."""
    try:
        import pyarrow  # noqa: PLC0415  an extra
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise Missing(
            f"{what}: the package pyarrow, which indexes need, is not installed. Install it: "
            'pip install "tcp-lab-notebook[capture]"'
        ) from None
    package: ModuleType = pyarrow
    return package


def kept_parameters(cls: type[LabParameters]) -> tuple[str, ...]:
    """The parameters in an index: all except the folder that keeps the runs."""
    return tuple(name for name in declared(cls) if name not in KEPT_ELSEWHERE)


def columns_of_lab(lab: Lab) -> tuple[IndexColumn, ...]:
    """The columns of a lab's index, in order: the point and its state, the parameters, the declared
    results, and the other columns of a study."""
    parameters = declared(lab.Parameters)
    taken = {column.name for column in OF_THE_INDEX} | {"condition"}
    if clash := sorted(taken & parameters.keys()):
        raise BadInput(
            f"the lab {lab.name} has the parameter {clash[0]}, which is a column of every index. "
            "Choose another name"
        )
    point, *state = OF_THE_INDEX
    condition = IndexColumn("condition", str, OWN)
    of_points = [
        IndexColumn(
            name, parameters[name].kind, PARAMETER, parameters[name].unit, parameters[name].help
        )
        for name in kept_parameters(lab.Parameters)
    ]
    facts = [
        IndexColumn(beside(name, parameters), _kind(kind), OWN, unit=UNITS.get(name, ""))
        for name, kind in BESIDE_RESULTS.items()
        if name != "condition"
    ]
    return (point, condition, *state, *of_points, *_results_of(lab), *facts)


UNITS = {"rtt_ms": "ms", "rate_mbit": "Mbit/s"}


def beside(name: str, parameters: Mapping[str, object] | type[LabParameters]) -> str:
    """The name of the column of a result or a fact: `run_NAME` if a parameter, or the index itself,
    already has a column with the name."""
    names = declared(parameters) if isinstance(parameters, type) else parameters
    is_of_index = any(column.name == name for column in OF_THE_INDEX)
    return f"{OF_RUN}{name}" if is_of_index or name in names else name


def _results_of(lab: Lab) -> list[IndexColumn]:
    computed = computed_columns(lab.require("results").Results)
    return [
        IndexColumn(
            **{
                **{name: value for name, value in vars(column).items() if name != "costly"},
                "name": beside(column.name, lab.Parameters),
                "predicted_by": column.predicted_by and beside(column.predicted_by, lab.Parameters),
            },
            kind=_kind(_type_of(lab, name, computed[name])),
        )
        for name, column in lab.columns.items()
    ]


def _type_of(lab: Lab, name: str, computed: ComputedColumn[Any]) -> Any:
    """The type that a column is annotated with; BadInput without."""
    hint = computed.type_in(lab.require("results").Results)
    if hint is Any:
        raise BadInput(
            f"the lab {lab.name}: the column {name} has no type, which an index needs. Write: "
            f"def {name}(self) -> float, or kind=float of a part"
        )
    return hint


def _kind(hint: Any) -> type[Scalar]:
    """The type in a hint such as `float | None`; text for types that are not scalar."""
    (kind, *others) = [part for part in get_args(hint) or (hint,) if part is not type(None)]
    return kind if not others and kind in KINDS.values() else str


def arrow_type(kind: type[Scalar]) -> pyarrow.DataType:
    """The type of a column in the file."""
    import pyarrow  # noqa: PLC0415  an extra

    types = {str: pyarrow.string, int: pyarrow.int64, float: pyarrow.float64, bool: pyarrow.bool_}
    return types[kind]()


def to_schema(head: Head, columns: tuple[IndexColumn, ...]) -> pyarrow.Schema:
    """The Arrow schema of an index."""
    import pyarrow  # noqa: PLC0415  an extra

    fields = [
        pyarrow.field(column.name, arrow_type(column.kind), metadata=_field_metadata(column))
        for column in columns
    ]
    return pyarrow.schema(fields, metadata={HEAD: json.dumps(head.as_json())})


def _field_metadata(column: IndexColumn) -> dict[bytes, str]:
    """`unit` and `meaning` for any Parquet reader, and everything for this one."""
    about = dataclasses.asdict(column)
    del about["name"], about["kind"]
    return {**field_metadata(Described(column.unit, column.meaning)), COLUMN: json.dumps(about)}


def from_schema(schema: pyarrow.Schema, what: str) -> tuple[Head, tuple[IndexColumn, ...]]:
    """The head and the columns of a file, which `what` names. Damaged if the file is not an index,
    BadInput for another schema version."""
    head = _head(schema, what)
    kinds = {arrow_type(kind): kind for kind in KINDS.values()}
    columns = []
    for field in schema:
        if field.type not in kinds:
            raise _not_an_index(what, f"the column {field.name!r} has the type {field.type}")
        columns.append(_column(field, kinds[field.type], what))
    names = [column.name for column in columns]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise _not_an_index(what, f"it has the column {twice[0]!r} twice")
    kind_of = {column.name: column.kind for column in columns}
    for name, kind in REQUIRED.items():
        if kind_of.get(name) is not kind:
            raise _not_an_index(what, f"it has no column {name} of type {kind.__name__}")
    for column in columns:
        kind = _kind_of_own(column) or column.kind
        if kind is not column.kind:
            raise _not_an_index(what, f"its column {column.name} is not of type {kind.__name__}")
    parameters = {column.name for column in columns if column.role == PARAMETER}
    if unknown := [name for name in head.axes if name not in parameters]:
        raise _not_an_index(what, f"its axis {unknown[0]!r} is not a parameter")
    return head, tuple(columns)


def _kind_of_own(column: IndexColumn) -> type[Scalar] | None:
    """The kind of a column that has the name of a fact about the run; a parameter of this name has
    a kind of its own, except for the parameters of every lab."""
    if column.role == PARAMETER and column.name in BESIDE_RESULTS:
        parameter = declared(LabParameters).get(column.name)
        return None if parameter is None else parameter.kind
    return KINDS_OF_OWN.get(column.name, BESIDE_RESULTS.get(column.name))


def _head(schema: pyarrow.Schema, what: str) -> Head:
    about = _parsed((schema.metadata or {}).get(HEAD), what)
    check_version(about.pop("schema", None), what, INDEX_VERSION)
    axes = about.pop("axes", None)
    if not isinstance(axes, dict) or not all(_is_axis(values) for values in axes.values()):
        raise _not_an_index(what, "its head has no axes")
    names = [field.name for field in dataclasses.fields(Head) if field.name != "axes"]
    if any(not isinstance(about.get(name), str) for name in names):
        raise _not_an_index(what, f"its head lacks {', '.join(names)}")
    texts = {name: str(about[name]) for name in names}
    return Head(axes={name: tuple(values) for name, values in axes.items()}, **texts)


def _is_axis(values: object) -> bool:
    scalars = tuple(KINDS.values())
    return isinstance(values, list) and all(isinstance(value, scalars) for value in values)


def _column(field: pyarrow.Field, kind: type[Scalar], what: str) -> IndexColumn:
    about = _parsed((field.metadata or {}).get(COLUMN), what)
    try:
        column = IndexColumn(name=field.name, kind=kind, **about)
    except TypeError:
        raise _not_an_index(what, f"the description of {field.name!r} is invalid") from None
    hints = get_type_hints(IndexColumn)
    for attribute in dataclasses.fields(column):
        allowed = get_args(hints[attribute.name]) or (hints[attribute.name],)
        if attribute.name != "kind" and not isinstance(getattr(column, attribute.name), allowed):
            raise _not_an_index(what, f"{attribute.name} of {field.name!r} has another type")
    if column.role not in ROLES:
        raise _not_an_index(what, f"the role of {field.name!r} is none of {', '.join(ROLES)}")
    return column


def _parsed(content: bytes | None, what: str) -> dict[str, Any]:
    try:
        parsed = parse(content or b"")
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise _not_an_index(what, "the metadata of the file or of a column are missing or invalid")
    return parsed


def _not_an_index(what: str, why: str) -> Damaged:
    return Damaged(f"{what} is not an index of a batch: {why}. {COPY_AGAIN}")
