"""Claims about the sizes of socket buffers: by default, requested, smallest and largest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.drive.units import KIB
from labs.experiments.sweeps.old_kernels import (
    MINIMUM,
    OLD_RMEM_BYTES,
    RMEM_SINCE,
    connected_send_bytes,
    smallest_bytes,
)
from labs.experiments.sweeps.socket_buffers import grants
from labs.read.claims.judge import compared, not_judged
from labs.read.claims.verdict import DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits, is_known, size_in_words
from labs.read.theory.windows import SMALLEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from labs.read.claims.evidence import Evidence
    from labs.read.claims.ledger import Claim


GIB = 1 << 30


def default_buffers(claim: Claim, seen: Evidence) -> Finding:
    """The default buffers as iperf 2 reports them: the sender's after connecting."""
    row = seen.row(claim.conditions[0])
    if row["connected_send_kib"] is None or row["granted_receive_kib"] is None:
        return not_judged("neither iperf3 nor the samples show both default buffers")
    measured = {"send": row["connected_send_kib"], "receive": row["granted_receive_kib"]}
    found = compared(claim, measured, None, seen)
    old = connected_send_bytes()
    reason = (
        f"the send buffer is {row['granted_send_kib']:.1f} KiB before connecting (tcp_wmem[1]) and "
        f"{measured['send']:.1f} KiB afterwards, when tcp_sndbuf_expand() makes room for twice the "
        f"initial congestion window; iperf 2 reports the latter. In CentOS 6 tcp_fixup_sndbuf() "
        f"made room for the window once, and did not round the memory of a packet up: "
        f"{in_digits(old)} bytes, {old / KIB:.1f} KiB. "
        f"The receive buffer is tcp_rmem[1], {measured['receive']:.0f} KiB; "
        f"before Linux {RMEM_SINCE} that was {in_digits(OLD_RMEM_BYTES)} bytes, "
        f"{OLD_RMEM_BYTES / KIB:.1f} KiB. {found.reason}"
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
    found = compared(claim, {"send": row["granted_send_kib"]}, None, seen)
    old = smallest_bytes()
    return Finding(
        verdict=found.verdict,
        factor=found.factor,
        measured={"send": row["granted_send_kib"], "receive": row["granted_receive_kib"]},
        reason=f"the minimum is {SMALLEST_BYTES['send']:,} bytes for sending (SOCK_MIN_SNDBUF, two "
        f"packets) and {SMALLEST_BYTES['receive']:,} for receiving (SOCK_MIN_RCVBUF, one packet: "
        f"2,048 and a struct sk_buff, aligned to 256). From Linux {MINIMUM[0]} to {MINIMUM[1]} the "
        f"minimum for receiving was 2,048 and the struct, {old['receive']:,} bytes or "
        f"{old['receive'] / KIB:.2f} KiB; for sending it was {old['send']:,}, which is the 2 KB of "
        f"claim A5.4. So 2.23 KiB is a receive buffer. {found.reason}",
    )


def largest_buffers(claim: Claim, seen: Evidence) -> Finding:
    """Whether requests beyond a core maximum are refused or capped."""
    name, *transfers = claim.conditions
    granted = grants(seen.run(name))
    if not granted:
        return not_judged(f"the run {name} requested no buffers")
    largest = _largest(granted)
    said = [f"{one} ({row['refused']})" for one in transfers if (row := seen.row(one))["refused"]]
    capped = all(largest[end] < 2 * max(granted) for end in largest)
    return Finding(
        verdict=HOLDS if capped else WRONG,
        measured={end: size / KIB for end, size in largest.items()},
        reason=f"a request of up to {max(granted):,} bytes gives at most "
        f"{size_in_words(largest['send'])} for sending and {size_in_words(largest['receive'])} for "
        "receiving, twice net.core.wmem_max and rmem_max; iperf3 refuses "
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
    factor = measured["with -w 1G"] / claim.figures["with -w 1G"]
    if factor <= 1 + claim.allowed:
        return Finding(
            verdict=HOLDS, measured=measured, reason="a request of 1 GiB gives a smaller buffer"
        )
    return Finding(
        verdict=DIFFERS,
        factor=measured["largest"] / claim.figures["largest"],
        measured=measured,
        reason=f"the largest buffer is {size_in_words(KIB * measured['largest'])}, and a request "
        f"of 1 GiB gives {size_in_words(KIB * measured['with -w 1G'])}: no larger request gives "
        "less, because the kernel limits it to half of the largest int (net/core/sock.c "
        "sk_setsockopt(), __sock_set_rcvbuf()). In CentOS 6 twice 1 GiB became a negative int, and "
        "the send buffer got its minimum of 2,048 bytes. The 219 Mbit/s are about two writes of "
        "2 KB per 0.15 ms",
    )


def _largest(granted: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    return {end: max(sizes[end] for sizes in granted.values()) for end in ("send", "receive")}
