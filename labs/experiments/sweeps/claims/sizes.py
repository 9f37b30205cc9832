"""Claims about the sizes of socket buffers: by default, requested, smallest and largest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from labs.drive.units import KIB
from labs.experiments.sweeps.claims.goodput import in_a_list
from labs.experiments.sweeps.old_kernels import (
    MINIMUM,
    OLD_RMEM_BYTES,
    RMEM_SINCE,
    connected_send_bytes,
    granted_send_bytes,
    printed,
    smallest_bytes,
)
from labs.experiments.sweeps.results import grants
from labs.read.claims.judge import compared, not_judged
from labs.read.claims.verdict import BY_SOURCE, DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits, is_known, size_in_words
from labs.read.theory.windows import SMALLEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from labs.read.claims.evidence import Evidence
    from labs.read.claims.ledger import Claim


GIB = 1 << 30
CORE_MAX = {"send": "net.core.wmem_max", "receive": "net.core.rmem_max"}
DOUBLING = tuple(1 << power for power in range(10, 31))
"""Requests from 1 KiB to 1 GiB, each twice the one before."""


def by_source(
    claim: Claim, measured: Mapping[str, float], then_bytes: Mapping[str, float], seen: Evidence
) -> Finding:
    """The figures of these runs compared with the article's. If they differ, whether the source of
    the article's kernel gives all digits that iperf 2 prints of each figure of the claim."""
    found = compared(claim, measured, None, seen)
    same = all(
        printed(size) == printed(KIB * claim.figures[name]) for name, size in then_bytes.items()
    )
    if found.verdict == DIFFERS and same:
        return replace(found, verdict=BY_SOURCE, factor=None)
    return found


def default_buffers(claim: Claim, seen: Evidence) -> Finding:
    """The default buffers as iperf 2 reports them: the sender's after connecting."""
    row = seen.row(claim.conditions[0])
    if row["connected_send_kib"] is None or row["granted_receive_kib"] is None:
        return not_judged("neither iperf3 nor the samples show both default buffers")
    measured = {"send": row["connected_send_kib"], "receive": row["granted_receive_kib"]}
    old = connected_send_bytes()
    found = by_source(claim, measured, {"send": old, "receive": OLD_RMEM_BYTES}, seen)
    reason = (
        f"the send buffer is {row['granted_send_kib']:.1f} KiB before connecting (tcp_wmem[1]) and "
        f"{measured['send']:.1f} KiB afterwards, when tcp_sndbuf_expand() makes room for twice the "
        f"initial congestion window; iperf 2 reports the latter. In CentOS 6 tcp_fixup_sndbuf() "
        f"made room for the window once, and did not round the memory of a packet up: "
        f"{in_digits(old)} bytes, {old / KIB:.1f} KiB. "
        f"The receive buffer is tcp_rmem[1], {measured['receive']:.0f} KiB; "
        f"before Linux {RMEM_SINCE} that was {in_digits(OLD_RMEM_BYTES)} bytes, "
        f"{OLD_RMEM_BYTES / KIB:.1f} KiB. That the article's kernel is that of CentOS 6 is "
        f"inferred from these two figures, which the article names without a kernel. {found.reason}"
    )
    return Finding(verdict=found.verdict, factor=found.factor, measured=measured, reason=reason)


def twice_the_request(claim: Claim, seen: Evidence) -> Finding:
    """The granted sizes of both buffers as a multiple of the request, over a whole series."""
    rows = [seen.row(name) for name in seen.matching(*claim.conditions)]
    factors = [
        row[f"granted_{end}_kib"] / row[f"requested_{end}_kib"]
        for row in rows
        for end in ("send", "receive")
        if is_known(row[f"granted_{end}_kib"])
    ]
    if not factors:
        return not_judged("iperf3 did not report the granted sizes")
    farthest = max(factors, key=lambda factor: abs(factor - claim.figure))
    found = compared(claim, {"": farthest}, None, seen)
    return Finding(
        verdict=found.verdict,
        factor=found.factor,
        measured=farthest,
        reason=f"{len(factors)} buffers of {len(rows)} runs, with core maxima that allow it; "
        f"half of each is meant for metadata (sk_setsockopt(), SO_SNDBUF). {found.reason}",
    )


def smallest_buffers(claim: Claim, seen: Evidence) -> Finding:
    """What a request of 1 KiB gives: the minimum, and the origin of the article's figure."""
    row = seen.row(claim.conditions[0])
    if not is_known(row["granted_send_kib"]) or not is_known(row["granted_receive_kib"]):
        return not_judged("iperf3 did not report the granted sizes")
    old = smallest_bytes()
    measured = {"send": row["granted_send_kib"], "receive": row["granted_receive_kib"]}
    found = by_source(claim, measured, {"send": old["receive"]}, seen)
    return replace(
        found,
        measured=measured,
        reason=f"the smallest receive buffer was 2,048 bytes plus a struct sk_buff, "
        f"{old['receive']:,} bytes or {old['receive'] / KIB:.2f} KiB, from Linux {MINIMUM[0]} to "
        f"{MINIMUM[1]} and in CentOS 6 (SOCK_MIN_RCVBUF; read in 2.6.32-642). The article calls it "
        f"a send buffer. That it is a receive buffer is an inference: the smallest send buffer was "
        f"{old['send']:,} bytes (SOCK_MIN_SNDBUF), the 2 KB of claim A5.4b. Today "
        "the smallest buffers hold one packet (receive) and two (send): "
        f"{SMALLEST_BYTES['receive']:,} and {SMALLEST_BYTES['send']:,} bytes. {found.reason}",
    )


def largest_buffers(claim: Claim, seen: Evidence) -> Finding:
    """Whether requests beyond a core maximum are refused or capped."""
    name, *transfers = claim.conditions
    granted = grants(seen.run(name))
    if not granted:
        return not_judged(f"the run {name} requested no buffers")
    core = {end: int(seen.run(name).sysctl("client", core)) for end, core in CORE_MAX.items()}
    if max(granted) <= max(core.values()):
        return not_judged(f"the run {name} requested no more than the core maxima")
    largest = _largest(granted)
    said = [f"{one} ({row['refused']})" for one in transfers if (row := seen.row(one))["refused"]]
    capped = all(largest[end] <= 2 * core[end] for end in largest)
    return Finding(
        verdict=HOLDS if capped else WRONG,
        measured={end: size / KIB for end, size in largest.items()},
        reason=f"a request of up to {max(granted):,} bytes gives at most "
        f"{size_in_words(largest['send'])} for sending and {size_in_words(largest['receive'])} for "
        f"receiving; net.core.wmem_max is {core['send']:,} bytes and rmem_max "
        f"{core['receive']:,}, and twice that is the most. iperf3 refuses "
        f"{' and '.join(said) or 'none'}",
    )


def beyond_the_largest(claim: Claim, seen: Evidence) -> Finding:
    """The largest buffer if the core maxima allow every request, and what 1 GiB gives."""
    granted = grants(seen.run(claim.conditions[0]))
    if GIB not in granted:
        return not_judged(f"the run {claim.conditions[0]} requested no buffer of 1 GiB")
    measured = {
        "largest": _largest(granted)["send"] / KIB,
        "with -w 1G": granted[GIB]["send"] / KIB,
    }
    if measured["with -w 1G"] < measured["largest"]:
        reason = "a request of 1 GiB gives a smaller buffer"
        return Finding(verdict=HOLDS, measured=measured, reason=reason)
    then = {
        "largest": max(map(granted_send_bytes, DOUBLING)),
        "with -w 1G": granted_send_bytes(GIB),
    }
    found = by_source(claim, measured, then, seen)
    given = claim.arguments
    bits = given["writes"] * given["write_bytes"] * 8
    slow, fast = sorted(bits / (1e3 * rtt_ms) for rtt_ms in given["rtts_ms"])
    return replace(
        found,
        measured=measured,
        reason="in CentOS 6 twice 1 GiB became a negative int, so the send buffer got its minimum, "
        f"{then['with -w 1G']:,} bytes. Of requests that double, the largest buffer was "
        f"{size_in_words(then['largest'])}, for 512 MiB. The article's {given['mbit_s']} "
        f"Mbit/s are not measured; {given['writes']} writes of {given['write_bytes']:,} bytes per "
        f"RTT of {in_a_list(given['rtts_ms'])} ms would be {fast:.0f} and {slow:.0f} Mbit/s. Today "
        "no larger request gives less: the kernel limits it to half of the largest int "
        f"(net/core/sock.c sk_setsockopt(), __sock_set_rcvbuf()), and 1 GiB gives "
        f"{size_in_words(KIB * measured['with -w 1G'])}",
    )


def _largest(granted: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    return {end: max(sizes[end] for sizes in granted.values()) for end in ("send", "receive")}
