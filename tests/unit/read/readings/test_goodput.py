"""A download as its client saw it."""

from __future__ import annotations

import dataclasses
from math import ceil, log2

import pytest

from labs.read.readings.goodput import download
from tests.real_runs import real

MSS = 1448
STEP_S = 0.2


def test_goodput_over_time_reaches_the_rate_after_slow_start() -> None:
    """50 MiB at both ends: the line is full 12 RTTs of 200 ms after the request: one RTT until the
    first data (10 segments, RFC 6928), and 11 doublings to 24 MB (RFC 5681 3.1)."""
    run = real("both-1gib")
    fetched = run.fetch()
    assert fetched is not None
    seen = download(run)
    steady = seen.third_bytes_s(2)
    assert steady is not None
    ends, speeds = seen.goodput_over_time(STEP_S)
    full = next(end for end, speed in zip(ends, speeds, strict=True) if speed >= 0.95 * steady)
    requested_s = (fetched["request_ns"] - seen.started_ns) / 1e9
    rtt_ms = run.link.measured.rtt_ms
    assert ceil(log2(steady * rtt_ms / 1e3 / (10 * MSS))) == 11
    assert full - STEP_S - requested_s == pytest.approx(2.4, abs=0.01)


def test_download_without_samples_after_the_first_byte_lasts_as_long_as_wget_says() -> None:
    """As if all samples had been taken before the first byte was due, 40 s after the request."""
    run = real("wget")
    measured = {**run.record["link"]["measured"], "rtt_ms": 40_000.8}
    late = dataclasses.replace(
        run, record={**run.record, "link": {**run.record["link"], "measured": measured}}
    )
    log, seen = run.wget(), download(late)
    assert log is not None and log.duration_s
    assert seen.duration_s == pytest.approx(log.duration_s, abs=1e-6)
    assert seen.end_ns == run.moments["end"] and seen.bytes == log.saved_bytes
