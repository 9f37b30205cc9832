"""Claims about the sizes of socket buffers: by default, requested, smallest and largest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.drive.units import KIB, MB
from labs.experiments.sweeps.old_kernels import (
    MINIMUM,
    OLD_RMEM_BYTES,
    RMEM_SINCE,
    connected_send_bytes,
    smallest_bytes,
)
from labs.experiments.sweeps.socket_buffers import grants
from labs.read.claims.judge import compared, not_judged
from labs.read.claims.verdict import ARITHMETIC, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits, is_known, size_in_words
from labs.read.theory.bdp import bdp_bytes
from labs.read.theory.windows import SMALLEST_BYTES

if TYPE_CHECKING:
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
        f"made room for the window once, without headers of their own: {in_digits(old)} bytes, "
        f"{old / KIB:.1f} KiB. The receive buffer is tcp_rmem[1], {measured['receive']:.0f} KiB; "
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
    """What requests beyond the core maxima give."""
    name, *transfers = claim.conditions
    granted = grants(seen.run(name))
    if not granted:
        return not_judged(f"the run {name} requested no buffers")
    largest = {end: max(sizes[end] for sizes in granted.values()) for end in ("send", "receive")}
    beyond = max(granted)
    said = [f"{one} ({row['refused']})" for one in transfers if (row := seen.row(one))["refused"]]
    reason = (
        f"a request of up to {beyond:,} bytes gives at most {size_in_words(largest['send'])} for "
        f"sending and {size_in_words(largest['receive'])} for receiving, twice net.core.wmem_max "
        f"and rmem_max; iperf3 refuses {' and '.join(said) or 'none'}. A larger request never "
        "gives less: these kernels also limit it to half of the largest int (net/core/sock.c "
        "__sock_set_rcvbuf()). In CentOS 6 twice 1 GiB became a negative int, and the send buffer "
        "got its minimum of 2,048 bytes, if the core maximum allowed such a request"
    )
    capped = all(sizes["send"] == largest["send"] for size, sizes in granted.items() if size >= GIB)
    return Finding(
        verdict=HOLDS if capped else WRONG,
        measured={end: size / KIB for end, size in largest.items()},
        reason=reason,
    )


def bdp(claim: Claim, seen: Evidence) -> Finding:
    """The BDP of the article's link."""
    arguments = claim.arguments
    found_mb = bdp_bytes(arguments["rate_mbit"], arguments["rtt_ms"]) / MB
    found = compared(claim, {"": found_mb}, {"": found_mb}, seen)
    return Finding(
        verdict=found.verdict,
        factor=found.factor,
        measured=found_mb,
        predicted=found_mb,
        reason=f"{found.reason}. At the 12 to 14 Gbit/s that the article reaches at most, 0.3 to "
        "0.35 MB are in flight: the link is never full there",
        witness=ARITHMETIC,
    )
