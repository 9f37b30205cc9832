"""The JSON Schema (2020-12) of `labs explain --json`. A change that removes or renames a field
raises SCHEMA_VERSION."""

from __future__ import annotations

from typing import Any, Final

from labs.read.flows.account_text import SCHEMA_VERSION
from labs.read.flows.reasons import EXPLANATIONS, NAMES, NOBODY

NUMBER: Final = {"type": "number", "minimum": 0}
COUNT: Final = {"type": "integer", "minimum": 0}
TEXT: Final = {"type": "string"}
REASON: Final = {"enum": sorted(EXPLANATIONS)}
END: Final = {"enum": [*NAMES, NOBODY]}


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": sorted(fields)}


def _or_null(kind: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [kind, {"type": "null"}]}


FINDING: Final = _object(
    reason=REASON,
    waiting=END,
    waited_for=END,
    count=COUNT,
    time_ms=NUMBER,
    longest_ms=NUMBER,
    frames={
        "type": "array",
        "items": {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2},
        "description": "the frames before and after each of the longest waits, as Wireshark counts",
    },
    confidence={"enum": ["certain", "likely"]},
    is_trouble={"type": "boolean"},
    sentence=TEXT,
    words=TEXT,
    source=TEXT,
    advice=TEXT,
)
CONNECTION: Final = _object(
    connection=COUNT,
    client=TEXT,
    server=TEXT,
    first_frame=COUNT,
    last_frame=COUNT,
    duration_ms=NUMBER,
    lost_ms=NUMBER,
    client_bytes=COUNT,
    server_bytes=COUNT,
    rtt_ms=_or_null(NUMBER),
    rtt_spread_ms=_or_null(_object(p10=NUMBER, p50=NUMBER, p90=NUMBER)),
    turns={"type": "object", "additionalProperties": COUNT},
    findings={"type": "array", "items": FINDING},
    ladder=_or_null(TEXT),
)
SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "labs explain --json",
    **_object(
        schema={"const": SCHEMA_VERSION},
        file=TEXT,
        verdict={"type": "object"},
        remarks={"type": "object"},
        look_first_at=_or_null(COUNT),
        totals={
            "type": "array",
            "items": _object(reason=REASON, waited_for=END, time_ms=NUMBER, count=COUNT),
        },
        connections={"type": "array", "items": CONNECTION},
    ),
}
