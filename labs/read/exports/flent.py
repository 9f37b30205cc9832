"""The goodput of a run as a data file of Flent (`.flent.gz`), which Flent lists and plots.

Source: version 4 of the format as flent/resultset.py of Flent 2.1.1 reads it. A file must belong to
one of Flent's own tests, which defines the series and the plots: `tcp_1down` if the client
received, `tcp_1up` if the server did. Flent's "Mbits/s" are 10^6 bits per second.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from labs.drive.units import SECOND_NS
from labs.read.readings.goodput import Download, received_most
from labs.read.runs.run import Run

VERSION = 4
ENDING = ".flent.gz"
STEP_S = 0.1
"""At least; an RTT if that is longer, because a window arrives per RTT."""
TESTS = {"client": ("tcp_1down", "TCP download"), "server": ("tcp_1up", "TCP upload")}
"""The test and the series by the host that received."""
BITS, MEGA = 8, 1e6


def flent_file(run: Run) -> bytes | None:
    """The file's content, equal bytes for equal runs; None for a run without a transfer that takes
    time and lasts some samples."""
    received = received_most(run)
    if received is None or received[1].goodput_bytes_s is None:
        return None
    text = json.dumps(as_json(run, *received), indent=1, sort_keys=True, allow_nan=False)
    return gzip.compress(text.encode(), mtime=0)


def as_json(run: Run, receiver: str, seen: Download) -> dict[str, Any]:
    """The content before compression. The raw values, which Flent plots, are those of the steps."""
    test, series = TESTS[receiver]
    step_s = max(STEP_S, run.measured.rtt_ms / 1e3)
    seconds, bytes_s = seen.goodput_over_time(step_s)
    goodput = [_mbit(rate) for rate in bytes_s]
    mean = None if seen.goodput_bytes_s is None else _mbit(seen.goodput_bytes_s)
    began_s = seen.started_ns / SECOND_NS
    return {
        "version": VERSION,
        "metadata": _metadata(run, test, seen, step_s)
        | {"SERIES_META": {series: {"UNITS": "Mbits/s", "MEAN_VALUE": mean}}},
        "x_values": seconds,
        "results": {series: goodput},
        "raw_values": {
            series: [
                {"t": began_s + x, "val": value} for x, value in zip(seconds, goodput, strict=True)
            ]
        },
    }


def _metadata(run: Run, test: str, seen: Download, step_s: float) -> dict[str, Any]:
    """What Flent knows about a test, for the two hosts of the run."""
    began = datetime.fromtimestamp(seen.started_ns // 1000 / MEGA, UTC)
    moment = began.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    length_s = (seen.end_ns - seen.started_ns) / SECOND_NS
    kernel = {"KERNEL_NAME": "Linux", "KERNEL_RELEASE": run.kernel.release}
    return {
        "NAME": test,
        "TITLE": f"{run.condition} ({run.testbed}, Linux {run.kernel.release})",
        "NOTE": f"{run.lab}: the connection that carried the most; payload without headers",
        "TIME": moment,
        "T0": moment,
        "HOST": "server",
        "HOSTS": ["server"],
        "LOCAL_HOST": "client",
        "DATA_FILENAME": f"{run.name}{ENDING}",
        "LENGTH": length_s,
        "TOTAL_LENGTH": length_s,
        "STEP_SIZE": step_s,
        "IP_VERSION": 4,
        "FAKE_RAW_VALUES": True,
        "TEST_PARAMETERS": _parameters(run),
        **kernel,
        "SYSCTLS": _sysctls(run, "client"),
        "REMOTE_METADATA": {"server": {**kernel, "SYSCTLS": _sysctls(run, "server")}},
    }


def _parameters(run: Run) -> dict[str, str]:
    """What identifies the run, and its link as requested and measured; texts, as Flent has them."""
    link: dict[str, Any] = dict(run.inputs["condition"]["link"])
    measured = run.measured
    parameters = {
        "lab": run.lab,
        "condition": run.condition,
        "testbed": run.testbed,
        "key": run.key,
        "digest": run.digest,
        "measured_rtt_ms": measured.rtt_ms,
        "measured_rate_mbit": measured.rate_mbit,
        **{f"link_{name}": value for name, value in link.items()},
    }
    return {name: str(value) for name, value in parameters.items() if value is not None}


def _sysctls(run: Run, host: str) -> Mapping[str, str]:
    return run.sysctls.get(host, {}).get("after", {})


def _mbit(bytes_s: float) -> float:
    return bytes_s * BITS / MEGA
