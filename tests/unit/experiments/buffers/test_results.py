"""What real runs show: goodput, how far the instruments agree, and what is to be minded."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from labs.experiments.buffers.figures import describe_run
from labs.experiments.buffers.results import Results
from labs.read.readings.goodput import Download, download, received_bytes
from labs.read.readings.instruments import capture_losses, carried, shaper_drops
from labs.read.theory.bulk import LINK
from tests.real_runs import FOLDER, codes, known, plain, real, with_condition, with_file, with_link

NAMES = sorted(
    path.name.removesuffix(".tar.xz")
    for path in FOLDER.glob("*.tar.xz")
    if not path.name.startswith(("windows-", "sweeps-"))  # other labs'
)
MIB = 1 << 20
LINE_TOLERANCE = 0.005
"""The virtual shaper is exact; what remains is where the last third of the time begins."""


@pytest.mark.parametrize("name", NAMES)
def test_results_are_plain_values(name: str) -> None:
    values = plain(Results(real(name)))
    assert json.loads(json.dumps(values)) == values


def test_results_of_a_slow_link_are_its_payload_rate() -> None:
    """10 Mbit/s carry 1448 bytes of payload in 1514 of frame (labs.read.theory.bdp)."""
    result = Results(real("captured"))
    line = 10e6 / 8 * 1448 / 1514
    assert result.steady_bytes_s == pytest.approx(line, rel=LINE_TOLERANCE)
    assert result.steady_mib_s == known(result.steady_bytes_s) / MIB
    assert result.bytes == 2 * MIB
    # The first quarter of so short a file is slow start: the mean is lower, as predicted.
    assert result.goodput_mib_s == pytest.approx(result.predicted_mean_mib_s, rel=0.01)
    assert result.bound == LINK
    assert result.settled is True
    assert codes(result) == []


def test_goodputs_of_the_counters_have_every_byte() -> None:
    """Octets less the headers of each packet as the stack saw it: the capture's payload, exactly,
    and the client's bytes but for the head of the reply."""
    run = real("captured")
    counted, captured = received_bytes(run), carried(run.path / "client/capture.pcap", 80)
    assert counted == captured.payload_bytes
    head = captured.payload_bytes - download(run).bytes
    assert 200 < head < 300  # nginx's head: status, date, length, type, Last-Modified, ETag


def test_notes_on_a_capture_that_was_cut() -> None:
    result = Results(real("capture-cut"))
    assert known(result.agreement_pct) > 10
    (note,) = result.notes()
    assert note.code == "instruments"
    assert f"{result.agreement_pct:.1f} %" in note.text


def test_results_of_wget_ended_by_the_limit_are_the_kernel_s() -> None:
    run = real("wget-limit")
    assert download(run).counted
    assert download(run).bytes == received_bytes(run)
    assert Results(run).agreement_pct is None  # nothing is left to hold it against
    assert Results(run).wget_mib_s is None


def test_notes_omit_requested_loss() -> None:
    run = real("loss")
    result = Results(run)
    assert shaper_drops(run) > 0
    assert "shaper_drops" not in codes(result)
    # One draw is within the range of the model's draws, which are 95 % of all.
    assert known(result.predicted_mean_low_mib_s) < known(result.goodput_mib_s)
    assert known(result.goodput_mib_s) < known(result.predicted_mean_high_mib_s)
    assert re.search(r"\d+ segments were", describe_run(run))
    # Segments that came twice are counted twice: still within what is allowed.
    assert known(result.agreement_pct) < 0.5


def test_notes_on_drops_that_were_not_requested() -> None:
    run = with_link(real("loss"), loss_pct=0)
    texts = {note.code: note.text for note in Results(run).notes()}
    assert str(shaper_drops(run)) in texts["shaper_drops"]


def test_notes_on_memory_pressure(tmp_path: Path) -> None:
    run = with_file(
        real("limit"),
        tmp_path,
        "server/nstat-after.txt",
        "TcpExtTCPMemoryPressures        0",
        "TcpExtTCPMemoryPressures        3",
    )
    assert "memory_pressure" in codes(Results(run))


def test_notes_on_a_capture_that_lost_packets(tmp_path: Path) -> None:
    run = with_file(
        real("captured"),
        tmp_path,
        "client/tcpdump.txt",
        "0 packets dropped by kernel",
        "17 packets dropped by kernel",
    )
    assert capture_losses(run) == 17
    assert "capture_lost" in codes(Results(run))


def test_notes_on_a_link_off_its_target() -> None:
    run = real("limit")
    other = {**run.record, "link": {**run.record["link"], "problems": ["RTT 41 ms"]}}
    assert "link" in codes(Results(dataclasses.replace(run, record=other)))


@pytest.mark.parametrize(
    "asked",
    [
        {"rate_mbit": 999},
        {"delay_ms": 100},
        {"loss_pct": 1},
        {"jitter_ms": 1},
        {"shaped_at": "router"},
    ],
)
def test_results_have_the_article_s_figures_on_its_link_alone(asked: dict[str, object]) -> None:
    run = real("both-1gib")
    assert Results(run).article_claim == "A1.8"
    other = Results(with_condition(run, link=asked))
    assert (other.article_mib_s, other.article_claim) == (None, None)


def test_download_in_thirds_and_steps() -> None:
    """1000 bytes in the first second, 3000 in each of the next two."""
    points = tuple((second * 10**8, 100 * second) for second in range(11)) + tuple(
        (10**9 + tenth * 10**8, 1000 + 300 * tenth) for tenth in range(1, 21)
    )
    seen = Download(0, 0, 3 * 10**9, 7000, points)
    assert [seen.third_bytes_s(third) for third in range(3)] == pytest.approx([1000, 3000, 3000])
    assert seen.goodput_bytes_s == pytest.approx(7000 / 3)
    seconds, bytes_s = seen.goodput_over_time(1.0)
    assert seconds == pytest.approx([1, 2])
    assert bytes_s == pytest.approx([1000, 3000])


def test_download_of_a_coarse_timeline_has_no_thirds() -> None:
    seen = Download(0, 0, 3 * 10**9, 7000, ((0, 0), (10**9, 10), (3 * 10**9, 7000)))
    assert seen.third_bytes_s(2) is None
