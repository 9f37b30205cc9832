"""`labs advise`: the advice for a reader and for a program, and predictions."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from labs.cli.__main__ import main
from labs.guest.units import MIB
from labs.read.theory.advice import advise
from labs.read.theory.windows import receive_window_bytes, send_bound_bytes

PATH = ("--rate-mbit", "1000", "--rtt-ms", "30")  # needs more than the default buffers
THOUSAND = ("--connections", "1000")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["advise", *words]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(told(capsys, *words, "--json"))
    return report


def test_advise_prints_lines_to_paste_for_both_ends(capsys: pytest.CaptureFixture[str]) -> None:
    advice = advise(1000, 30, "6.1")
    text = told(capsys, *PATH)
    assert max(map(len, text.splitlines())) <= 100
    lines = [line for line in text.splitlines() if line.startswith("sysctl")]
    assert lines == [
        f"sysctl -w net.ipv4.tcp_rmem='4096 131072 {advice.receive_bytes}'",
        f"sysctl -w net.ipv4.tcp_wmem='4096 16384 {advice.send_bytes}'",
        f"sysctl -w net.core.rmem_max={advice.receive_bytes // 2}  # for SO_RCVBUF",
        f"sysctl -w net.core.wmem_max={advice.send_bytes // 2}  # for SO_SNDBUF",
    ]


def test_advise_says_where_the_defaults_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "--rate-mbit", "100", "--rtt-ms", "20")
    assert re.search("default buffers: .* MiB/s, 100 % of the link, limited by the link", text)
    assert text.count("tcp_rmem: the default is enough\n") == 1
    assert text.count("tcp_wmem: the default is enough\n") == 1


LOSSY = ("--rate-mbit", "100", "--rtt-ms", "40", "--loss-pct")


def test_advise_on_a_lossy_path_has_the_figure_of_mathis_and_names_bbr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """1448 bytes / 40 ms * 1.31 / sqrt(0.01)."""
    report = as_json(capsys, *LOSSY, "1")
    assert report["loss_based_bytes_s"] == pytest.approx(1448 / 0.04 * 1.31 / 0.1)
    text = told(capsys, *LOSSY, "1")
    assert "0.452 MiB/s" in text and "tcp_congestion_control=bbr" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("loss_pct", ["0.00001", "8"])
def test_advise_names_bbr_only_where_it_helps(
    capsys: pytest.CaptureFixture[str], loss_pct: str
) -> None:
    assert "bbr" not in told(capsys, *LOSSY, loss_pct)


def test_advise_sizes_for_bbr_hold_four_bdp(capsys: pytest.CaptureFixture[str]) -> None:
    """At 300 Mbit/s, 80 ms and 0.1 % BBR fills 54 % of the link with the default buffers, 98.6 %
    with three BDP at both ends and 99.3 % with six (docs/model.md, Buffers under loss)."""
    words = ("--rate-mbit", "300", "--rtt-ms", "80", "--loss-pct", "0.1")
    report = as_json(capsys, *words)
    assert (report["control"], report["holds_bdp"]) == ("bbr", 4)
    held = report["line_bytes_s"] * 0.08
    window = receive_window_bytes(report["receive_alone_bytes"], "6.1", offloads=False)
    assert window == pytest.approx(4 * held, rel=0.01)
    assert send_bound_bytes(report["send_bytes"], "6.1") == pytest.approx(4 * held, rel=0.01)
    assert report["default"]["goodput_bytes_s"] is None
    assert "bbr" in report["default"]["cannot_say"]
    assert report["tcp_wmem"] == f"4096 16384 {report['send_bytes']}"
    assert report == as_json(capsys, *words, "--control", "bbr")
    assert "tcp_congestion_control=bbr" in told(capsys, *words)


@pytest.mark.parametrize("control", ["cubic", "reno"])
def test_advise_sizes_for_a_loss_based_control(
    capsys: pytest.CaptureFixture[str], control: str
) -> None:
    """1448 bytes / 40 ms * 1.31 / sqrt(0.01) is 4 % of the link: four times this window, twice."""
    report = as_json(capsys, *LOSSY, "1", "--control", control)
    share = report["loss_based_bytes_s"] / report["line_bytes_s"]
    assert report["holds_bdp"] == pytest.approx(8 * share)
    assert report["sysctl"] == {"receiver": [], "sender": []}
    low, high = report["default"]["between_bytes_s"]
    assert low < report["default"]["goodput_bytes_s"] < high
    assert 0.6 * report["loss_based_bytes_s"] < low < high < 1.4 * report["loss_based_bytes_s"]


def test_advise_gives_no_sizes_without_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """Above 5 % of loss nothing says that BBR fills a link."""
    for words in ((), ("--control", "bbr")):
        report = as_json(capsys, *LOSSY, "8", *words)
        assert report["control"] == (words[-1] if words else None)
        assert report["holds_bdp"] is report["tcp_rmem"] is report["send_bytes"] is None
        assert "tcp_wmem" not in told(capsys, *LOSSY, "8", *words)


@pytest.mark.parametrize(
    "words",
    [
        ("1", "--control", "vegas"),
        ("1", "--control", "cubik", "--measure"),
        ("1", "--control", "bbr", "--predict"),
        ("1", "--predict"),
        ("8", "--measure"),
    ],
    ids=" ".join,
)
def test_advise_refuses_what_it_would_not_use(words: tuple[str, ...]) -> None:
    assert main(["advise", *LOSSY, *words]) == 2


def test_advise_predicts_a_lossy_path(capsys: pytest.CaptureFixture[str]) -> None:
    """A receive buffer of 8 KiB limits the flow far below the formula of Mathis."""
    words = (*LOSSY, "1", "--control", "reno", "--predict")
    predicted = as_json(capsys, *words)["predicted"]
    assert predicted["bound"] == "congestion window"
    assert predicted["goodput_bytes_s"] == pytest.approx(1448 / 0.04 * 1.31 / 0.1, rel=0.25)
    small = as_json(capsys, *words, "--rcvbuf", "8K")["predicted"]
    assert small["goodput_bytes_s"] < 0.5 * predicted["goodput_bytes_s"]


def test_advise_as_json_has_the_sizes_and_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    report = as_json(capsys, *PATH, "--kernel", "6.12", "--connections", "1000")
    advice = advise(1000, 30, "6.12")
    assert report["receive_bytes"] == advice.receive_bytes
    # The default of 6 MiB is larger than what packets that are not coalesced need.
    assert report["receivers_memory_bytes"] == 1000 * max(6 * MIB, advice.receive_alone_bytes)
    assert report["senders_memory_bytes"] == 1000 * advice.send_bytes
    assert report["tcp_wmem"] == f"4096 16384 {advice.send_bytes}"
    assert (
        report["default"]["bound"] == "sender's wake-up" == report["default"]["limits"][0]["name"]
    )
    assert report["predicted"] is None and report["measured"] == []


def test_advise_predicts_given_buffers(capsys: pytest.CaptureFixture[str]) -> None:
    """300 Mbit/s, 35 ms, 1 MiB at the sender: 24.1 MiB/s, measured on 6.1.192 in virtual time;
    1 MiB per RTT would be 28.6."""
    words = ("--rate-mbit", "300", "--rtt-ms", "35", "--predict", "--sndbuf")
    predicted = as_json(capsys, *words, "1M")["predicted"]
    assert predicted["sndbuf_bytes"] == MIB and predicted["rcvbuf_bytes"] == 6 * MIB
    assert predicted["goodput_bytes_s"] / MIB == pytest.approx(24.118, rel=0.02)
    assert predicted == as_json(capsys, *words, "1048576")["predicted"]
    assert "limited by the send buffer" in told(capsys, *words, "1024K", "--rcvbuf", "6M")


def test_advise_explains_more_in_flight_than_the_send_buffer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Writes of 128 KiB leave a partial segment, which Nagle's algorithm holds while data is in
    flight: the next write is appended without a check (net/ipv4/tcp.c tcp_sendmsg_locked())."""
    words = ("--rate-mbit", "100", "--rtt-ms", "20", "--predict", "--sndbuf")
    small = as_json(capsys, *words, "32K")["predicted"]
    assert small["goodput_bytes_s"] > 1.1 * small["limits"][0]["bytes_s"]
    assert "Nagle's algorithm" in told(capsys, *words, "32K")
    assert "Nagle's algorithm" not in told(capsys, *words, "4M")


def test_advise_names_the_rules_that_it_takes_for_a_later_kernel(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = ("--rate-mbit", "100", "--rtt-ms", "30")  # a longer one takes long to simulate
    later, latest = (
        told(capsys, *path, "--kernel", kernel).splitlines() for kernel in ("9.9", "7.2")
    )
    assert later[0].endswith("Linux 9.9 at both ends, by the rules of 7.2")
    assert later[1:] == latest[1:]
    assert latest[0].endswith("Linux 7.2 at both ends")


def test_advise_says_from_which_memory_on_buffers_stop_growing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """1,000 receivers of 6 MiB are a 16th of 93.8 GiB, and senders of 4 MiB 3/64 of 83.3 GiB:
    net/ipv4/tcp.c tcp_init_mem() sets tcp_mem[1] and tcp_mem[0] to these shares."""
    text = " ".join(told(capsys, "--rate-mbit", "100", "--rtt-ms", "20", *THOUSAND).split())
    assert "may take up to 5.86 GiB at the receiver and 3.91 GiB at the sender" in text
    assert "the receiver needs 93.8 GiB of memory, and the sender 83.3 GiB" in text


def test_advise_never_exceeds_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Two packets of such a flow leave at once on the shaper's credit."""
    report = as_json(capsys, "--rate-mbit", "0.001", "--rtt-ms", "0.001")
    assert report["default"]["bound"] == "link"
    assert report["default"]["goodput_bytes_s"] <= report["line_bytes_s"]
