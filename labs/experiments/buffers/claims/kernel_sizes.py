"""Judging functions: default buffer sizes, what setsockopt grants, how far buffers grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from labs.read.claims.evidence import Evidence
from labs.read.claims.rules import not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import size_in_mib
from labs.read.readings.goodput import own_socket
from labs.read.readings.instruments import under_memory_pressure
from labs.read.runs.run import Run

CORE = {"receive": "net.core.rmem_max", "send": "net.core.wmem_max"}
# Which host's value counts for a sysctl: rmem is the receiver's, wmem the sender's.
HOSTS = {"rmem": ("client", "server"), "wmem": ("server", "client")}


def defaults(claim: Claim, seen: Evidence) -> Finding:
    """A kernel's default sizes, from hosts on which a run did not set them."""
    wanted = claim.texts
    found = {name: value for name in wanted for value in _untouched(seen, name)[:1]}
    if not found:
        return not_judged(f"needs a run that does not set them: labs run {seen.lab.name}")
    missing = [name for name in wanted if name not in found]
    if missing:
        return not_judged(f"no run has the default of {', '.join(missing)}")
    measured = {name: value for name, (value, _) in found.items()}
    witness = seen.witness([condition for _, condition in found.values()])
    other = [name for name in wanted if measured[name] != wanted[name]]
    kernel = next(seen.run(condition) for _, condition in found.values()).kernel.release
    said = ", ".join(f"{name} is {measured[name]}" for name in other) or "all are equal"
    return Finding(
        verdict=WRONG if other else HOLDS,
        measured=measured,
        witness=witness,
        reason=f"on {kernel} {said}",
    )


def _untouched(seen: Evidence, name: str) -> list[tuple[str, str]]:
    """The values of a sysctl on hosts where the condition did not set it, with the condition."""
    hosts = HOSTS["rmem" if "rmem" in name else "wmem"]
    found = []
    for host in hosts:
        for condition, run in seen.runs.items():
            before = run.sysctls.get(host, {}).get("before", {})
            if name in before and not _sets(run, host, name):
                found.append((" ".join(before[name].split()), condition))
    return found


def _sets(run: Run, host: str, name: str) -> bool:
    """Whether the condition sets it there. Network namespaces have the core maxima in common
    (net/core/sysctl_net_core.c net_core_table): set on one host, they are set on both."""
    by_host: dict[str, Iterable[str]] = run.inputs["condition"]["sysctls"]
    hosts = by_host if name.startswith("net.core.") else (host,)
    return any(name in by_host.get(one, ()) for one in hosts)


def doubling(claim: Claim, seen: Evidence) -> Finding:
    """Granted over requested, for sizes between the minimum and the cap."""
    times = claim.figure
    rows = [
        row for row in _grants(seen, claim.conditions) if row["requested_bytes"] <= row["cap_bytes"]
    ]
    raised = [row for row in rows if row["granted_bytes"] > times * row["requested_bytes"]]
    ratios = [row["granted_bytes"] / row["requested_bytes"] for row in rows if row not in raised]
    if not ratios:
        return not_judged("no size between the minimum and the cap was requested")
    smallest = {row["socket"]: row["granted_bytes"] for row in raised}
    even = len({(row["socket"], row["granted_bytes"]) for row in raised}) == len(smallest)
    if even and min(ratios) == max(ratios) == times:
        said = " and ".join(f"{size:,} ({socket})" for socket, size in smallest.items())
        return Finding(
            verdict=HOLDS,
            measured=times,
            reason=(
                f"{len(ratios)} requests were granted twice their size"
                + (f"; smaller ones are granted the minimum of {said} bytes" if said else "")
            ),
        )
    found = sorted(row["granted_bytes"] / row["requested_bytes"] for row in rows)
    farthest = max(found, key=lambda ratio: abs(ratio / times - 1))
    return Finding(
        verdict=DIFFERS,
        measured=farthest,
        factor=farthest / times,
        reason=(f"requests were granted {found[0]:g} to {found[-1]:g} times their size"),
    )


def cap(claim: Claim, seen: Evidence) -> Finding:
    """The size granted for requests above the core maximum, in units of that maximum."""
    over = [
        row for row in _grants(seen, claim.conditions) if row["requested_bytes"] > row["cap_bytes"]
    ]
    if {row["socket"] for row in over} != set(CORE):
        return not_judged("no size above the core maximum was requested")
    found = [row["granted_bytes"] / row["cap_bytes"] for row in over]
    caps = sorted({int(row["cap_bytes"]) for row in over})
    largest = max(int(row["requested_bytes"]) for row in over)
    reason = (
        f"with a core maximum of {' and '.join(f'{one:,}' for one in caps)} bytes a request "
        f"for {size_in_mib(largest)} is granted {2 * caps[0]:,}: the cap, doubled"
    )
    reason += _raised(seen, largest)
    if min(found) == max(found) == claim.figure:
        return Finding(verdict=HOLDS, measured=found[0], reason=reason)
    return Finding(
        verdict=DIFFERS,
        measured=max(found),
        factor=max(found) / claim.figure,
        reason=f"the granted sizes are {min(found):g} to {max(found):g} times the core maximum",
    )


def _raised(seen: Evidence, requested: int) -> str:
    """The size granted for the same request if a run raised the core maximum, in words."""
    for row in _grants(seen, ("setsockopt-*",)):
        if row["requested_bytes"] == requested <= row["cap_bytes"]:
            return (
                f"; with the maximum raised to {size_in_mib(row['cap_bytes'])} it is granted "
                f"{size_in_mib(row['granted_bytes'])}"
            )
    return ""


def _grants(seen: Evidence, conditions: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The sizes requested of setsockopt and granted, each with its host's cap."""
    for name in seen.matching(*conditions):
        run = seen.run(name)
        for row in run.buffers:
            if row.socket in CORE and row.requested_bytes:
                cap_bytes = int(run.sysctl(row.host, CORE[row.socket]))
                yield {**asdict(row), "cap_bytes": cap_bytes}


def by_hand(claim: Claim, seen: Evidence) -> Finding:
    """The growth of buffers that the kernel must not size, and of those that it sizes."""
    automatic = seen.run(claim.arguments["automatic"])
    sizes = {end: _sizes(seen.run(name), end) for end, name in claim.arguments["fixed"].items()}
    sized = {end: _sizes(automatic, end) for end in sizes}
    if any(found is None for found in (*sizes.values(), *sized.values())):
        return not_judged("a transfer ended before its buffer was sampled")
    grown = {end: found[1] / found[0] for end, found in sizes.items() if found is not None}
    usual = {end: found[1] / found[0] for end, found in sized.items() if found is not None}
    if min(usual.values()) <= 1:
        return not_judged("the buffer does not grow here even if the kernel sizes it")
    told = "; ".join(
        f"the {end} {'stays at' if low == high else 'grows to'} {high:,} bytes, automatic "
        f"{automatic_low:,} to {automatic_high:,}"
        for end, (low, high), (automatic_low, automatic_high) in (
            (end, sizes[end] or (0, 0), sized[end] or (0, 0)) for end in sizes
        )
    )
    return Finding(
        verdict=HOLDS if set(grown.values()) == {1.0} else WRONG,
        measured={**grown, **{f"{end}, automatic": ratio for end, ratio in usual.items()}},
        reason=f"{told}, {_pressure(automatic)}{_unswitched(claim, seen)}",
        judged=len(grown),
    )


def _unswitched(claim: Claim, seen: Evidence) -> str:
    """What the other end's buffer does with the same setting on its host, if a run shows it."""
    said = [
        f". With the same setting at the other end, the {end} still grows from {low:,} to "
        f"{high:,} bytes"
        for end, name in claim.arguments.get("unaffected", {}).items()
        for condition in seen.matching(name)
        for low, high in filter(None, [_sizes(seen.run(condition), end)])
    ]
    return "".join(said)


def _pressure(run: Run) -> str:
    """Whether there was memory pressure, the cause that the article names, while it grew."""
    if under_memory_pressure(run):
        return "under memory pressure"
    return "without memory pressure, which the article names as the cause (see A1.19)"


SOCKETS = {
    "receive buffer": ("client", "bytes_received", "rcvbuf_bytes"),
    "send buffer": ("server", "bytes_acked", "sndbuf_bytes"),
}


def _sizes(run: Run, end: str) -> tuple[int, int] | None:
    """The smallest and the largest buffer of an end's socket; None if not sampled."""
    host, counter, column = SOCKETS[end]
    rows = own_socket(run.samples(host), counter)
    if rows.empty or column not in rows:
        return None
    return int(rows[column].min()), int(rows[column].max())
