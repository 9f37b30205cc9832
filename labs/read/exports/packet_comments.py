"""Comments on the packets of a capture: what ended a stall, and the steps of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pandas import DataFrame

from labs.read.flows.account import Account
from labs.read.flows.exchanges import describe_steps, exchanges
from labs.read.flows.reasons import NOBODY, Reason, explained
from labs.read.flows.waits import stalls


def comments_of(
    segments: DataFrame,
    accounts: Sequence[Account] = (),
    errors: Mapping[int, Reason] | None = None,
) -> Mapping[int, Sequence[str]]:
    """Comments by the offset of a record, for a table of segments (`labs.capture.read`).

    A stall has one on the packet before it and one, with the reason, on the packet that ends it. A
    request that met a stall has its latency and its steps on its first packet. Each finding of
    `accounts` that is trouble has its sentence on the packet that ends its longest wait. `errors`
    are as in `stalls`.
    """
    comments: defaultdict[int, list[str]] = defaultdict(list)
    offset_of = segments["offset"].astype("int64").to_dict()
    stalled = stalls(segments, errors=errors)
    for stall in stalled.to_dict("records"):
        length, reason = f"{stall['gap_ms']:.1f} ms", stall["reason"]
        comments[offset_of[stall["before"]]].append(f"Nothing is sent for {length}: {reason}.")
        comments[offset_of[stall["after"]]].append(
            f"Ends a stall of {length}: {reason}. {_describe_wait(stall)}"
        )
    ended = set(stalled["after"])
    for asked in exchanges(segments).to_dict("records"):
        if asked["gap_before"] in ended:
            comments[offset_of[asked["first_row"]]].append(
                f"Request answered after {asked['latency_ms']:.1f} ms: "
                f"{describe_steps(asked['steps'])}."
            )
    offsets = dict(zip(segments["frame"].tolist(), segments["offset"].tolist(), strict=True))
    for account in accounts:
        for finding in account.findings:
            if finding.is_trouble and finding.frames:
                comments[offsets[finding.frames[0][1]]].append(finding.sentence)
    return comments


def _describe_wait(stall: Mapping[Any, Any]) -> str:
    """Who waited for whom, and the meaning of the reason with its source."""
    meant, waiting = explained(stall["reason"]), stall["waiting"]
    waits = "" if waiting == NOBODY else f"The {waiting} waited for the {stall['waited_for']}. "
    return f"{waits}{meant.words} Source: {meant.source}."
