"""The report of iperf3 in JSON: its own figures, or the error with which it ended.

Source: iperf 3.12, src/iperf_api.c iperf_json_finish() (`error`), print_interval_results() and
iperf_print_results() (`end`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.errors import Damaged


@dataclass(frozen=True)
class Report:
    """One transfer by the report of its client; without figures if it ended with an error.

    `received_bytes` and `duration_s` are those of the receiver.
    """

    error: str | None
    received_bytes: int | None = None
    duration_s: float | None = None


def report(said: object) -> Report:
    """Read a report; Damaged for what iperf3 cannot have written."""
    if not isinstance(said, dict) or not isinstance(said.get("start"), dict):
        raise Damaged("not a report of iperf3: not a JSON object with start")
    error = said.get("error")
    if error is not None:
        if not isinstance(error, str) or not error:
            raise Damaged("error is not a text")
        return Report(error)
    received = _object(_object(said, "end"), "sum_received")
    return Report(None, int(_number(received, "bytes")), _number(received, "seconds"))


def _object(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = said.get(name)
    if not isinstance(found, dict):
        raise Damaged(f"{name} is not a JSON object")
    return found


def _number(said: Mapping[str, Any], name: str) -> float:
    found = said.get(name)
    if not isinstance(found, int | float) or isinstance(found, bool) or not 0 <= found < 1 << 63:
        raise Damaged(f"{name} is not a number from 0 to 2^63 - 1")
    return float(found)
