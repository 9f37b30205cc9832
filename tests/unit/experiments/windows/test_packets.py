"""The table of packets, on recorded runs of each kernel."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy
import pytest
from pandas import DataFrame

from labs.errors import Damaged
from labs.experiments.windows.results import Results, packets, setup_of
from labs.read import capture
from labs.read.readings.receive_queue import arrivals, samples_of, sent_alone, window_on_the_wire
from tests.real_runs import FOLDER, real

RUNS = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("windows-*.tar.xz"))
COUNTERS = {"coalesced": "TCPRcvCoalesce", "collapsed": "TCPRcvCollapsed"}


@cache
def table(name: str) -> DataFrame:
    return packets(real(name))


def test_recorded_runs_of_each_kernel() -> None:
    kernels = {name.split("-")[1] for name in RUNS}
    assert kernels == {"5.10", "6.1", "6.12", "7.2"}


@pytest.mark.parametrize("name", RUNS)
def test_packets_predicted_window_equals_the_wire(name: str) -> None:
    """To the byte, for each packet. The prediction is not fed with anything that the receiver
    sent; what it is fed with, arrivals and reads, is equal by construction."""
    results = Results(real(name))
    assert (results.predicted_equal_pct, results.deviation_bytes) == (100, 0)


@pytest.mark.parametrize("name", RUNS)
def test_packets_predicted_memory_equals_the_samples(name: str) -> None:
    """The simulation has the memory, the queue and rcv_ssthresh of the kernel as well, wherever the
    receiver looked after a segment and before the next one."""
    seen = table(name).dropna(subset=["rmem_bytes"])
    assert len(seen) > 0.8 * len(table(name))
    for column in ("rcvbuf", "rmem", "recv_q", "rcv_ssthresh"):
        assert (seen[f"predicted_{column}_bytes"] == seen[f"{column}_bytes"]).all(), column


@pytest.mark.parametrize("name", RUNS)
def test_packets_marks_are_the_counters(name: str) -> None:
    """All of them up to the last captured segment; the receiver may have seen another one after
    it. The simulation has each of them at the same packet."""
    rows = table(name)
    taken = samples_of(real(name))
    last = [sample for sample in taken if sample.data_segs_in <= len(rows)][-1]
    for mark, counter in COUNTERS.items():
        assert rows[mark].sum() == last.counters[counter]
        if rows["rmem_bytes"].notna().all():
            assert (rows[mark] == rows[f"predicted_{mark}"]).all()


@pytest.mark.parametrize("kernel", ["5.10", "6.1"])
def test_packets_dropped_inside_the_window(kernel: str) -> None:
    """A4.4: the first drop is packet 62, with 3,072 bytes of the window left before it. A4.8:
    collapsing begins there."""
    rows = table(f"windows-{kernel}-article-scale0").set_index("packet")
    dropped = rows.index[rows["dropped"] > 0]
    assert dropped[0] == 62
    assert rows.loc[61, "window_left_bytes"] == 3072
    assert rows.index[rows["collapsed"] > 0][0] == 62
    assert (rows.loc[:61, "dropped"] == 0).all()
    assert len(dropped) == len(rows) - 61


@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
def test_packets_none_dropped_since_6_6(kernel: str) -> None:
    for scale in (0, 1):
        rows = table(f"windows-{kernel}-article-scale{scale}")
        assert not rows["dropped"].any()
        assert not rows["collapsed"].any()


def test_packets_beyond_a_retracted_window() -> None:
    """A buffer that shrinks after accept on 6.12: the window was 64,512 bytes, the memory holds 33
    segments, and a segment that finds none left makes the receiver take the window back."""
    rows = table("windows-6.12-rcvbuf-16k")
    left, dropped = rows["window_left_bytes"].tolist(), rows["dropped"].fillna(1)
    first = int((dropped > 0).argmax())
    assert left[0] > 60_000
    assert left[first - 1] > 0 > left[first]
    assert dropped[first:].gt(0).all()


@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
def test_window_on_the_wire_is_the_kernels(kernel: str) -> None:
    """tcp_info has rcv_wnd since 6.2. The first 16 segments are acknowledged at once: there the
    window on the wire is that one."""
    rows = table(f"windows-{kernel}-article-scale1").iloc[:16]
    assert (rows["acked_bytes"] == rows["received_bytes"]).all()
    assert (rows["rcv_wnd_bytes"] == rows["window_left_bytes"]).all()


def test_packets_prediction_is_of_the_kernel() -> None:
    """Another kernel's rules, fed with the same arrivals, predict other windows."""
    run = real("windows-6.12-article-scale1")
    record = {**run.record, "kernel": {**run.record["kernel"], "release": "6.1.192"}}
    results = Results(dataclasses.replace(run, record=record))
    assert (results.predicted_equal_pct or 0) < 50
    assert (results.deviation_bytes or 0) > 1000


def test_setup_of_a_run() -> None:
    run = real("windows-6.1-article-scale0")
    segments = capture.read(run.file("server/capture.pcap"))
    setup = setup_of(run, segments)
    assert (setup.mss_bytes, setup.timestamps, setup.adv_win_scale) == (1024, False, 0)
    assert (setup.rtt_ms, setup.hz, setup.rmem_max_bytes) == (200, 250, 6291456)
    assert 65536 in (setup.rcvbuf_bytes, setup.accept_rcvbuf_bytes)


def test_sent_alone() -> None:
    """Full segments close together are parts of a large packet, and so is a short one that follows
    them; short ones by themselves are not."""
    length = [1024, 1024, 500, 1024, 300, 300]
    end = 1 + numpy.cumsum(length)
    rows = DataFrame(
        {
            "payload_bytes": length,
            "seq": end - length,
            "end": end,
            "time_ns": [0, 32_000, 64_000, 10**9, 2 * 10**9, 2 * 10**9 + 32_000],
        }
    )
    assert sent_alone(rows, 1024).tolist() == [False, False, False, True, True, True]


def test_arrivals_without_data() -> None:
    segments = capture.read(real("windows-6.1-article-scale0").file("server/capture.pcap"))
    with pytest.raises(Damaged, match="no data segment"):
        arrivals(segments[segments["payload_bytes"] == 0])


def test_window_on_the_wire_without_the_receiver() -> None:
    segments = capture.read(real("windows-6.1-article-scale0").file("server/capture.pcap"))
    rows = table("windows-6.1-article-scale0")
    with pytest.raises(Damaged, match="before the first segment of the receiver"):
        window_on_the_wire(segments[segments["direction"] == 0], rows, 0)
