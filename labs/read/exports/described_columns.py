"""Units and meanings of a table's columns, for readers of Parquet and of CSV.

Parquet has them in the metadata of each field, under `unit` and `meaning`. CSV has a Frictionless
Table Schema beside it, where `description` is the meaning and `unit` an additional property.
Source: Table Schema, version 1 (2021), which allows additional properties of fields.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas

TYPES = {"string": "string", "boolean": "boolean", "Int64": "integer", "Float64": "number"}
"""The type of a field by the type of its column."""


@dataclass(frozen=True)
class Described:
    """What a column contains; both may be empty."""

    unit: str = ""
    meaning: str = ""


def field_metadata(column: Described) -> dict[bytes, str]:
    """The metadata of a field of Arrow and Parquet."""
    metadata = {b"unit": column.unit, b"meaning": column.meaning}
    return {name: text for name, text in metadata.items() if text}


def as_parquet(table: pandas.DataFrame, columns: Mapping[str, Described]) -> bytes:
    """The table as a Parquet file, with the units and meanings of its columns; needs pyarrow."""
    import pyarrow  # noqa: PLC0415  an extra
    import pyarrow.parquet  # noqa: PLC0415

    made = pyarrow.Table.from_pandas(table, preserve_index=False)
    fields = [field.with_metadata(field_metadata(columns[field.name])) for field in made.schema]
    stream = io.BytesIO()
    pyarrow.parquet.write_table(
        made.cast(pyarrow.schema(fields, metadata=made.schema.metadata)), stream
    )
    return stream.getvalue()


def table_schema(table: pandas.DataFrame, columns: Mapping[str, Described]) -> dict[str, Any]:
    """The Table Schema of a table whose columns have the types of TYPES."""
    fields = []
    for name, kind in table.dtypes.items():
        column = columns[str(name)]
        texts = {"description": column.meaning, "unit": column.unit}
        fields.append(
            {"name": str(name), "type": TYPES[str(kind)]}
            | {key: text for key, text in texts.items() if text}
        )
    return {"fields": fields, "missingValues": [""]}


def as_text(content: Mapping[str, Any]) -> str:
    """A JSON file, equal bytes for equal content."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
