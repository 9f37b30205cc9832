"""Do the instruments of a run agree: the client, the kernel's counters, the capture?"""

from __future__ import annotations

from labs.read.readings.counters import received_bytes
from labs.read.readings.goodput import SECOND_NS, Download
from labs.read.runs.run import Run

ALLOWED_PCT = 0.5


def goodputs(run: Run, seen: Download) -> dict[str, float]:
    """Goodput in bytes/s by each instrument that the run has.

    Counters have no clock: their bytes take the client's time. They are left out where the client
    could not say its bytes and they stand in for it. The capture at the client gives
    two: its bytes in the client's time, and those in its own, from the first segment with payload
    to the last.
    """
    if seen.goodput_bytes_s is None:
        return {}
    found = {"client": seen.goodput_bytes_s}
    counted = None if seen.counted else received_bytes(run)
    if counted is not None:
        found["counters"] = counted / seen.duration_s
    path = run.capture("client")
    if path is not None:
        from labs.read.parse.pcap import carried

        packets = carried(path, run.link.asked.port)
        found["capture"] = packets.payload_bytes / seen.duration_s
        if (
            packets.first_ns is not None
            and packets.last_ns is not None
            and (packets.last_ns > packets.first_ns)
        ):
            took_s = (packets.last_ns - packets.first_ns) / SECOND_NS
            found["capture's own clock"] = packets.payload_bytes / took_s
    return found


def apart_pct(found: dict[str, float]) -> float | None:
    """How far the other instruments are from the client at most, in % of what the client says."""
    others = [value for name, value in found.items() if name != "client"]
    if "client" not in found or not others:
        return None
    return 100 * max(abs(value / found["client"] - 1) for value in others)
