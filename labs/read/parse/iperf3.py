"""The report of iperf3 in JSON: the error with which it ended, if any.

The figures of a transfer come from a capture and from the sockets; iperf3's own are rounded to its
intervals. Source: iperf 3.12, src/iperf_api.c iperf_json_start(), iperf_json_finish().
"""

from __future__ import annotations

from labs.errors import Damaged


def error(report: object) -> str | None:
    """The error of a report; None for a report without one. Damaged for what iperf3 cannot have
    written."""
    if not isinstance(report, dict) or not isinstance(report.get("start"), dict):
        raise Damaged("not a report of iperf3: not a JSON object with start")
    message = report.get("error")
    if message is not None and (not isinstance(message, str) or not message):
        raise Damaged("error is not a text")
    return message
