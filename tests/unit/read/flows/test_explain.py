"""What `labs explain` says of captures with known causes: one test for each earlier defect.

The captures data/explain-* are from virtual kernels; benchmarks/explain sets their causes.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import shlex
import struct
import sys
from pathlib import Path

import jsonschema
import pytest

from benchmarks.explain.worsen import doubled, from_client, records, written
from labs.cli.__main__ import main
from labs.errors import Damaged
from labs.read.capture import read
from labs.read.capture.segment_table import CWR
from labs.read.flows import reasons as of
from labs.read.flows import rules
from labs.read.flows.account import SCHEMA, Account, Finding
from labs.read.flows.explain import explain
from labs.read.flows.waits import explained_waits, stalls
from tests import tshark
from tests.captures import without_syns
from tests.made_flows import ACK, FIN, PSH, RST, SYN, capture, segment

FIXTURES = Path(__file__).parents[3] / "fixtures"
TRUTH, EXCHANGES = Path(__file__).parents[4] / "data", FIXTURES / "exchanges"
PORT = 20_000
MSS = b"\2\4\5\xb4"


def unpacked(name: str, folder: Path) -> Path:
    path = folder / f"{name}.pcap"
    path.write_bytes(gzip.decompress((TRUTH / f"{name}.pcap.gz").read_bytes()))
    return path


def only(path: Path) -> Account:
    (account,) = explain(path).accounts
    return account


def times(account: Account) -> dict[of.Reason, float]:
    times_ms: dict[of.Reason, float] = {}
    for finding in account.findings:
        times_ms[finding.reason] = times_ms.get(finding.reason, 0.0) + finding.time_ms
    return times_ms


def trouble(account: Account) -> set[of.Reason]:
    return {finding.reason for finding in account.findings if finding.is_trouble}


def test_1_a_refused_syn_that_is_repeated_is_no_loss(tmp_path: Path) -> None:
    """SYN and reset, three times, as a host that does not listen answers a stubborn client."""
    made = []
    for at in (0, 500_000, 1_000_000):
        made.append((at, segment(PORT, 0, 1000, 0, SYN)))
        made.append((at + 100, segment(PORT, 1, 0, 1001, RST | ACK)))
    assert trouble(only(capture(tmp_path / "x.pcap", made))) == {of.REFUSED}


@pytest.mark.parametrize("client", [True, False])
def test_2_one_direction_gets_no_reasons(client: bool, tmp_path: Path) -> None:
    header, packets = records(unpacked("explain-delayed-ACK", tmp_path))
    half = [packet for packet in packets if from_client(packet[2]) == client]
    file_account = explain(written(tmp_path / "half.pcap", header, half))
    assert file_account.verdict.one_direction == 1
    assert any("one direction only" in line for line in file_account.verdict.lines)
    assert trouble(file_account.accounts[0]) <= {of.UNTOLD}


def handshake(syn_ack_us: int, *, syns: int = 1) -> list[tuple[int, bytes]]:
    made = [(at, segment(PORT, 0, 1000, 0, SYN, options=MSS)) for at in range(syns)]
    made.append((syn_ack_us, segment(PORT, 1, 5000, 1001, SYN | ACK, options=MSS)))
    return [*made, (syn_ack_us + 20, segment(PORT, 0, 1001, 5001, ACK))]


def test_3_the_rtt_is_not_the_handshake_if_acks_are_faster(tmp_path: Path) -> None:
    """The SYN-ACK took 110 ms, every ACK takes 0.07 ms: the path is short."""
    made, at, seq = handshake(110_000), 200_000, 1001
    for _ in range(6):
        made.append((at, segment(PORT, 0, seq, 5001, ACK | PSH, length=2920)))
        made.append((at + 70, segment(PORT, 1, 5001, seq + 2920, ACK)))
        at, seq = at + 97_000, seq + 2920
    path = capture(tmp_path / "x.pcap", made)
    account = only(path)
    assert account.rtt_ms is not None and account.rtt_ms < 0.2
    assert times(account)[of.APPLICATION] == pytest.approx(5 * 97 + 90, abs=2)


def test_3_a_repeated_syn_measures_nothing(tmp_path: Path) -> None:
    """Karn's algorithm: the second SYN left 2 ms before the answer to the first."""
    made = [
        (0, segment(PORT, 0, 1000, 0, SYN, options=MSS)),
        (137_000, segment(PORT, 0, 1000, 0, SYN, options=MSS)),
        (139_000, segment(PORT, 1, 5000, 1001, SYN | ACK, options=MSS)),
        (139_020, segment(PORT, 0, 1001, 5001, ACK)),
    ]
    at, seq = 140_000, 1001
    for _ in range(8):
        made.append((at, segment(PORT, 0, seq, 5001, ACK, length=2920)))
        made.append((at + 139_000, segment(PORT, 1, 5001, seq + 2920, ACK)))
        at, seq = at + 139_050, seq + 2920
    account = only(capture(tmp_path / "x.pcap", made))
    assert account.rtt_ms == pytest.approx(139, abs=1)
    assert of.DELAYED_ACK not in times(account)


def test_5_one_segment_after_doubling_timers_is_a_timeout(tmp_path: Path) -> None:
    """Retransmitted after 0.2, 0.6, 1.2, 2.4 and 4.8 s."""
    made = handshake(1_000)
    for ms in (2, 202, 602, 1202, 2402, 4802):
        made.append((1000 * ms, segment(PORT, 0, 1001, 5001, ACK | PSH, length=100)))
    made.append((4_803_000, segment(PORT, 1, 5001, 1101, ACK)))
    account = only(capture(tmp_path / "x.pcap", made))
    assert trouble(account) == {of.TIMEOUT}
    assert times(account)[of.TIMEOUT] == pytest.approx(4800, abs=10)


def test_7_a_wait_next_to_a_hole_cannot_be_told(tmp_path: Path) -> None:
    """The capture lacks a response, which the client acknowledges."""
    header, packets = records(unpacked("explain-delayed-ACK", tmp_path))
    big = [n for n, packet in enumerate(packets) if not from_client(packet[2]) and packet[1] > 150]
    path = written(tmp_path / "holed.pcap", header, [*packets[: big[22]], *packets[big[22] + 1 :]])
    file_account = explain(path)
    assert file_account.verdict.holes >= 1
    assert times(file_account.accounts[0])[of.UNTOLD] > 20


def test_9_a_delayed_ack_covers_less_than_two_segments(tmp_path: Path) -> None:
    made = [*handshake(100), (1_000, segment(PORT, 0, 1001, 5001, ACK | PSH, length=2920))]
    made.append((45_000, segment(PORT, 1, 5001, 3921, ACK)))
    assert of.DELAYED_ACK not in set(stalls(read(capture(tmp_path / "x.pcap", made)))["reason"])


@pytest.mark.parametrize("name", ["explain-retransmission-timeout", "explain-delayed-ACK"])
def test_10_packets_captured_twice_are_counted_once(name: str, tmp_path: Path) -> None:
    from random import Random

    path = unpacked(name, tmp_path)
    header, packets = records(path)
    twice = explain(written(tmp_path / "twice.pcap", header, doubled(packets, Random(1))))
    assert twice.verdict.copies_removed == len(packets)
    assert times(twice.accounts[0]) == pytest.approx(times(only(path)), abs=0.1)


def test_11_a_reset_says_by_whom_and_frames_are_those_of_wireshark() -> None:
    account = only(TRUTH / "explain-reset.pcap.gz")
    (finding,) = [finding for finding in account.findings if finding.reason == of.RESET]
    assert (finding.waited_for, finding.confidence) == ("server", "certain")
    table = read(TRUTH / "explain-reset.pcap.gz")
    (row,) = table[(table["flags"] & RST) != 0].to_dict("records")
    assert finding.frames[0][1] == row["frame"] and "acknowledged" in finding.detail


def test_11_a_connection_is_selected_by_its_ends(capsys: pytest.CaptureFixture[str]) -> None:
    ends = "10.77.0.1:80-10.77.0.2:45732"
    assert main(["explain", str(EXCHANGES / "nagle-off.pcap.gz"), "--connection", ends]) == 0
    assert "connection 0" in capsys.readouterr().out


def test_12_xz_and_a_pipe_are_read_and_snoop_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = unpacked("explain-delayed-ACK", tmp_path)
    expected = read(plain)
    packed = tmp_path / "x.pcap.xz"
    packed.write_bytes(lzma.compress(plain.read_bytes()))
    assert read(packed).equals(expected)
    (tmp_path / "x.snoop").write_bytes(b"snoop\0\0\0" + bytes(200))
    with pytest.raises(Damaged, match="snoop"):
        read(tmp_path / "x.snoop")

    class Input:
        buffer = io.BytesIO(plain.read_bytes())

    monkeypatch.setattr(sys, "stdin", Input)
    assert main(["explain", "-"]) == 0
    assert "delayed, but nobody waited" in capsys.readouterr().out


def test_parts_add_up_to_the_whole() -> None:
    for path in [*TRUTH.glob("explain-*.pcap.gz"), *EXCHANGES.glob("*.pcap*")]:
        for account in explain(path).accounts:
            assert sum(times(account).values()) == pytest.approx(account.duration_ms, abs=0.01), (
                path
            )


def test_as_json_follows_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    for path in TRUTH.glob("explain-*.pcap.gz"):
        jsonschema.validate(explain(path).as_json(), SCHEMA)
    assert main(["explain", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


def test_main_writes_a_page_and_comments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = EXCHANGES / "outage.pcap"
    page, notes = tmp_path / "x.html", tmp_path / "x.pcapng"
    assert main(["explain", str(path), "--out", str(page), "--dry-run"]) == 0
    assert not page.exists()
    for out in (page, notes):
        assert main(["explain", str(path), "--out", str(out)]) == 0
    text = page.read_text()
    assert "Time by cause" in text and "retransmission timer expired" in text
    assert 'src="http' not in text and str(EXCHANGES) not in text
    assert 'name="viewport"' in text and "prefers-color-scheme: dark" in text
    assert b"retransmission timeout" in notes.read_bytes()
    capsys.readouterr()
    assert main(["explain", str(path), "--out", "x.txt"]) == 2
    assert ".html or .pcapng" in capsys.readouterr().err


@pytest.mark.skipif(not tshark.available(), reason="tshark is not installed")
def test_packet_comments_are_on_the_frames_that_the_sentences_name(tmp_path: Path) -> None:
    for name, reason, frame in (
        ("explain-connection-refused", of.REFUSED, 2),
        ("explain-gave-up", of.GAVE_UP, None),
        ("explain-retransmission-timeout", of.TIMEOUT, 145),
    ):
        path = TRUTH / f"{name}.pcap.gz"
        out = tmp_path / f"{name}.pcapng"
        assert main(["explain", str(path), "--out", str(out)]) == 0
        shown = tshark.printed(out, ("frame.number", "frame.comment"), "frame.comment")
        comments = {int(number): text for number, text in shown}
        (finding,) = [finding for finding in only(path).findings if finding.reason == reason]
        assert frame in (None, finding.frames[0][1])
        assert finding.sentence in comments[finding.frames[0][1]]


def test_ladder_command_draws_the_worst_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that the account prints runs as it is."""
    for name in ("explain-connection-refused", "explain-fast-recovery", "explain-zero-window"):
        plain = explain(TRUTH / f"{name}.pcap.gz").as_json()
        words = shlex.split(plain["connections"][0]["ladder"])
        assert words[0] == "labs" and words[-1] == "ladder.html"
        assert main([*words[1:-1], str(tmp_path / "x.html")]) == 0, capsys.readouterr().err


def test_waits_without_the_handshake_hold_back(tmp_path: Path) -> None:
    late = without_syns(EXCHANGES / "download.pcap.gz", tmp_path / "late.pcap")
    (connection,) = explained_waits(read(late)).connections
    codes = {code for rounds in connection.rounds for code in rounds.reason.tolist()}
    assert codes and of.SEND_BUFFER not in codes


def flights(path: Path, sizes: list[int], *, pause_us: int = 0, cwr_in: int = -1) -> Account:
    """A response of so many full segments per round trip of 20 ms, captured at the client, whose
    window is large. One flight may begin with CWR; pauses may precede the flights."""
    scaled = MSS + b"\3\3\7"
    made = [
        (0, segment(PORT, 0, 1000, 0, SYN, options=scaled)),
        (20_000, segment(PORT, 1, 5000, 1001, SYN | ACK, options=scaled)),
        (20_020, segment(PORT, 0, 1001, 5001, ACK)),
        (20_100, segment(PORT, 0, 1001, 5001, ACK | PSH, length=200)),
    ]
    seq = 5001
    for number, size in enumerate(sizes):
        at = 40_200 + number * (20_100 + pause_us)
        flight = burst(at, seq, size, step_us=25)
        if number == cwr_in:
            flight[0] = (at, segment(PORT, 1, seq, 1201, ACK | CWR, length=1460))
        made += flight
        seq += 1460 * size
    return only(capture(path, made))


@pytest.mark.parametrize(("cwr_in", "reason"), [(-1, of.UNTOLD), (4, of.ECN_MARKS)])
def test_only_marks_or_a_loss_explain_a_reduced_flight(
    cwr_in: int, reason: of.Reason, tmp_path: Path
) -> None:
    """Marks (ECN) reduce cubic's window to 0.7, from which it grows slowly; nothing is lost. If the
    sender does not say so (CWR), its buffer or program may have become smaller as well."""
    sizes = [10, 20, 40, 80, *([56] * 6), *([57] * 4), *([58] * 4)]
    times_ms = times(flights(tmp_path / "x.pcap", sizes, cwr_in=cwr_in))
    assert of.SEND_BUFFER not in times_ms
    assert times_ms[reason] > 200 and of.CONGESTION_WINDOW not in times_ms


def test_bursts_after_idle_time_that_do_not_grow_are_no_slow_start(tmp_path: Path) -> None:
    times_ms = times(flights(tmp_path / "x.pcap", [40] * 12, pause_us=300_000))
    assert of.SLOW_START not in times_ms


def test_the_end_of_a_response_is_no_full_window(tmp_path: Path) -> None:
    """Responses of 14.5 segments into a window of 8: after a full window the rest fits, and leaves
    less than three segments of room. What follows it is a round trip, not the window."""
    made, seq, asked, at = handshake(20_000), 5001, 1001, 20_100
    for _ in range(12):
        made.append((at, segment(PORT, 0, asked, seq, ACK | PSH, window=8 * 1460, length=100)))
        asked += 100
        for sizes in ([1460] * 8, [*([1460] * 6), 730]):
            at += 20_000
            for length in sizes:
                made.append((at, segment(PORT, 1, seq, asked, ACK, length=length)))
                seq, at = seq + length, at + 25
                made.append((at, segment(PORT, 0, asked, seq, ACK, window=8 * 1460)))
        at += 1_000
    times_ms = times(only(capture(tmp_path / "x.pcap", made)))
    assert 230 < times_ms[of.FULL_WINDOW] < 250
    assert times_ms[of.ROUND_TRIP] > 10


def answered(rtt_us: int = 20_000) -> list[tuple[int, bytes]]:
    """A handshake seen at the client, over a path with that RTT, and a request."""
    return [*handshake(rtt_us), (rtt_us + 100, segment(PORT, 0, 1001, 5001, ACK | PSH, length=200))]


def burst(at_us: int, seq: int, count: int, step_us: int = 200) -> list[tuple[int, bytes]]:
    """Full segments from the server and their ACKs, next to each other."""
    made = []
    for number in range(count):
        at, begin = at_us + step_us * number, seq + 1460 * number
        made.append((at, segment(PORT, 1, begin, 1201, ACK, length=1460)))
        made.append((at + 20, segment(PORT, 0, 1201, begin + 1460, ACK)))
    return made


def test_13_a_loss_before_the_capture_is_no_application_without_ids(tmp_path: Path) -> None:
    """The last segment of a burst was lost and comes after 220 ms, of which 20 ms are the RTT; the
    ID of all IP packets is 0."""
    made = [*answered(), *burst(40_500, 5001, 3)]
    made += burst(261_000, 5001 + 3 * 1460, 1)
    account = only(capture(tmp_path / "x.pcap", made))
    assert trouble(account) == {of.UNTOLD}
    assert times(account)[of.UNTOLD] == pytest.approx(200, abs=2)


def test_13_a_late_response_without_ids_is_likely_the_application(tmp_path: Path) -> None:
    made = [*answered(), *burst(620_000, 5001, 3)]
    account = only(capture(tmp_path / "x.pcap", made))
    (late,) = [finding for finding in account.findings if finding.waited_for == "server"]
    assert (late.reason, late.confidence) == (of.APPLICATION, "likely")


def even_writer(rtt_us: int, count: int = 400) -> list[tuple[int, bytes]]:
    """1460 bytes every 2 ms, seen at the server; each is acknowledged after a round trip."""
    made = [
        (0, segment(PORT, 0, 1000, 0, SYN, options=MSS)),
        (20, segment(PORT, 1, 5000, 1001, SYN | ACK, options=MSS)),
        (rtt_us, segment(PORT, 0, 1001, 5001, ACK)),
        (rtt_us + 100, segment(PORT, 0, 1001, 5001, ACK | PSH, length=200)),
    ]
    for number in range(count):
        at, seq = rtt_us + 200 + 2000 * number, 5001 + 1460 * number
        made.append((at, segment(PORT, 1, seq, 1201, ACK, length=1460, window=65_535)))
        made.append((at + rtt_us, segment(PORT, 0, 1201, seq + 1460, ACK, window=65_535)))
    return sorted(made, key=lambda packet: packet[0])


def test_14_an_even_writer_does_not_fill_the_path(tmp_path: Path) -> None:
    """40 of 65 KB of the window, every 2 ms, over an RTT of 55 ms that never grows."""
    account = only(capture(tmp_path / "x.pcap", even_writer(55_000)))
    assert of.PATH not in times(account)
    (untold,) = [finding for finding in account.findings if finding.reason == of.UNTOLD]
    assert untold.time_ms > 0.5 * account.duration_ms
    assert untold.either == (of.PATH, of.APPLICATION)


def echoing(at_ms: int, echoed_ms: int) -> bytes:
    """The option of timestamps that count milliseconds."""
    return b"\1\1\x08\x0a" + struct.pack(">II", at_ms, echoed_ms)


@pytest.mark.parametrize(("flight", "reason"), [(30, of.PATH), (10, of.UNTOLD)])
def test_14_a_queue_before_the_capture_shows_by_timestamps(
    flight: int, reason: of.Reason, tmp_path: Path
) -> None:
    """1460 bytes every 2 ms over an RTT of 20 ms, seen at the client, which acknowledges at once.
    Each echoes the timestamp of the ACK that released it: with 30 segments in flight that passed
    60 ms before, so that they were queued; with 10 in flight 20 ms."""
    made = answered()
    for number in range(600):
        at_ms, seq = 41 + 2 * number, 5001 + 1460 * number
        echoed = max(20, at_ms - 2 * min(10 + number // 10, flight))
        data = segment(PORT, 1, seq, 1201, ACK, length=1460, options=echoing(at_ms, echoed))
        answer = segment(PORT, 0, 1201, seq + 1460, ACK, 65_535, options=echoing(at_ms, at_ms))
        made += [(1000 * at_ms, data), (1000 * at_ms + 20, answer)]
    account = only(capture(tmp_path / "x.pcap", made))
    assert times(account)[reason] > 0.5 * account.duration_ms


def test_24_with_more_in_flight_nobody_waits_for_a_delayed_ack(tmp_path: Path) -> None:
    """Flights of 11 segments over an RTT of 100 ms, seen at the server: the ACK of the first
    flight's last is delayed by 40 ms, while ten others are in flight."""
    made = [
        (0, segment(PORT, 0, 1000, 0, SYN, options=MSS)),
        (20, segment(PORT, 1, 5000, 1001, SYN | ACK, options=MSS)),
        (100_000, segment(PORT, 0, 1001, 5001, ACK)),
        (100_100, segment(PORT, 0, 1001, 5001, ACK | PSH, length=200)),
    ]
    sent = [(100_200 + number, 5001 + 1460 * number) for number in range(11)]
    for at in (200_300, 300_300, 400_300):
        made += [(when, segment(PORT, 1, seq, 1201, ACK, length=1460)) for when, seq in sent]
        begin, end = sent[0][1], sent[-1][1] + 1460
        made += [
            (at + pair, segment(PORT, 0, 1201, begin + 2920 * (pair + 1), ACK)) for pair in range(5)
        ]
        made.append((at + 40_000, segment(PORT, 0, 1201, begin + 1460 * 11, ACK)))
        sent = [(at + 10 + number, end + 1460 * number) for number in range(10)]
        sent.append((at + 40_010, end + 14_600))
    account = only(capture(tmp_path / "x.pcap", sorted(made, key=lambda packet: packet[0])))
    delayed = [finding for finding in account.findings if finding.reason == of.DELAYED_ACK]
    assert [(finding.waiting, finding.time_ms, finding.count) for finding in delayed] == [
        (of.NOBODY, 0, 1)
    ]


SYNS = [(0, segment(PORT, 0, 1000, 0, SYN)), (1_000_000, segment(PORT, 0, 1000, 0, SYN))]


@pytest.mark.parametrize(
    ("rest", "reason", "count"),
    [
        ([segment(PORT, 0, 1001, 5001, ACK), segment(PORT, 0, 1001, 0, RST)], of.UNTOLD, 1),
        ([segment(PORT, 0, 1001, 5001, ACK), segment(PORT, 1, 5001, 0, RST)], of.UNTOLD, 1),
        ([segment(PORT, 1, 0, 1001, RST | ACK)], of.REFUSED, 1),
        ([], of.UNANSWERED, 1),
    ],
)
def test_15_only_a_reset_that_acknowledges_the_syn_refuses(
    rest: list[bytes], reason: of.Reason, count: int, tmp_path: Path
) -> None:
    """The client's packets alone, a reset of what the capture lacks, and a refusal of one SYN."""
    made = [*SYNS, *((1_100_000 + 1000 * number, frame) for number, frame in enumerate(rest))]
    account = only(capture(tmp_path / "x.pcap", made))
    assert trouble(account) == {reason}
    assert [finding.count for finding in account.findings if finding.reason == reason] == [count]


@pytest.mark.parametrize(
    ("code", "reason"), [(1, of.UNREACHABLE_HOST), (4, of.UNANSWERED), (13, of.FILTERED)]
)
def test_15_the_code_of_an_icmp_error_tells_who_refuses(
    code: int, reason: of.Reason, tmp_path: Path
) -> None:
    syn = SYNS[0][1]
    icmp = struct.pack(">BBHI", 3, code, 0, 0) + syn[14:42]
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(icmp), 0, 0, 64, 1, 0, syn[30:34], syn[26:30]
    )
    made = [SYNS[0], (500, syn[:14] + ip + icmp), SYNS[1]]
    assert trouble(only(capture(tmp_path / "x.pcap", made))) == {reason}


def test_16_free_time_is_not_lost(tmp_path: Path) -> None:
    """A connection that its server closes after 30 s lost nothing by that."""
    made = [*answered(), *burst(40_500, 5001, 1)]
    made.append((30_000_000, segment(PORT, 1, 6461, 1201, FIN | ACK)))
    account = only(capture(tmp_path / "x.pcap", made))
    assert times(account)[of.CLOSED_LATE] > 29_000
    assert of.CLOSED_LATE not in trouble(account) and account.lost_ms < 1


def test_16_a_late_end_costs_the_end_that_has_closed(tmp_path: Path) -> None:
    made = [*answered(), *burst(40_500, 5001, 1)]
    made.append((41_000, segment(PORT, 0, 1201, 6461, FIN | ACK)))
    made.append((61_000, segment(PORT, 1, 6461, 1202, ACK)))
    made.append((9_000_000, segment(PORT, 1, 6461, 1202, FIN | ACK)))
    account = only(capture(tmp_path / "x.pcap", made))
    assert of.CLOSED_LATE in trouble(account) and account.lost_ms > 8000


def test_17_what_the_window_left_is_not_the_application() -> None:
    """The window leaves one segment, and no packet is told of twice."""
    account = only(TRUTH / "explain-zero-window.pcap.gz")
    assert of.APPLICATION not in trouble(account)
    assert of.DELAYED_ACK not in times(account)
    assert len([finding for finding in account.findings if finding.reason == of.FULL_WINDOW]) == 1


def test_17_what_was_sent_in_vain_takes_no_time() -> None:
    (needless,) = [
        finding
        for account in explain(EXCHANGES / "stopped-reader.pcap").accounts
        for finding in account.findings
        if finding.reason == of.SPURIOUS
    ]
    assert (needless.time_ms, needless.waited_for, needless.count) == (0, "client", 1)


def test_17_before_a_reset_nothing_is_known() -> None:
    account = only(TRUTH / "explain-reset.pcap.gz")
    assert of.IDLE not in times(account)
    (untold,) = [finding for finding in account.findings if finding.reason is of.UNTOLD]
    assert untold.either == (of.APPLICATION, of.TIMEOUT) and "log" in untold.decide


def test_18_without_any_distance_a_short_gap_is_no_timer(tmp_path: Path) -> None:
    """A retransmission 20 ms after its segment, in a capture that has no ACK of anything."""
    made = [(0, segment(PORT, 1, 5001, 1201, ACK, length=1460))]
    made.append((100, segment(PORT, 0, 1201, 5001, ACK)))
    made.append((20_000, segment(PORT, 1, 5001, 1201, ACK, length=1460)))
    account = only(capture(tmp_path / "x.pcap", made))
    assert not trouble(account) & {of.TIMEOUT, of.TAIL_LOSS, of.FAST_RECOVERY}
    made[2] = (420_000, made[2][1])
    assert trouble(only(capture(tmp_path / "y.pcap", made))) & {of.TIMEOUT, of.TAIL_LOSS}


def test_19_rounds_of_both_directions_keep_apart(tmp_path: Path) -> None:
    """Bulk in both directions at once: each sender has its own rounds."""
    made = []
    for at, frame in even_writer(55_000):
        made.append((at, frame))
    for number in range(400):
        at, seq = 55_700 + 2000 * number, 1201 + 1460 * number
        made.append((at, segment(PORT, 0, seq, 5001, ACK, length=1460)))
        made.append((at + 50, segment(PORT, 1, 5001, seq + 1460, ACK)))
    path = capture(tmp_path / "x.pcap", sorted(made, key=lambda packet: packet[0]))
    (connection,) = explained_waits(read(path)).connections
    assert {rounds.direction for rounds in connection.rounds} == {0, 1}
    account = only(path)
    assert sum(times(account).values()) == pytest.approx(account.duration_ms, abs=0.01)


@pytest.mark.parametrize("name", ["explain-retransmission-timeout", "explain-delayed-ACK"])
def test_20_all_readers_ignore_copies(name: str, tmp_path: Path) -> None:
    from random import Random

    from labs.read.exports.pcapng import comments_of
    from labs.read.flows.exchanges import exchanges

    path = unpacked(name, tmp_path)
    header, packets = records(path)
    twice = read(written(tmp_path / "twice.pcap", header, doubled(packets, Random(1))))
    once = read(path)
    for table in (stalls, exchanges):
        both = table(twice)[["gap_ms", "reason"]], table(once)[["gap_ms", "reason"]]
        assert both[0]["reason"].tolist() == both[1]["reason"].tolist()
        assert both[0]["gap_ms"].tolist() == pytest.approx(both[1]["gap_ms"].tolist(), abs=0.1)
    assert len(comments_of(twice)) == len(comments_of(once)) > 0


@pytest.mark.skipif(not tshark.available(), reason="tshark is not installed")
def test_20_a_refusal_by_icmp_is_one_for_stalls_and_comments(tmp_path: Path) -> None:
    syn = SYNS[0][1]
    icmp = struct.pack(">BBHI", 3, 13, 0, 0) + syn[14:42]
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(icmp), 0, 0, 64, 1, 0, syn[30:34], syn[26:30]
    )
    path = capture(tmp_path / "x.pcap", [SYNS[0], (500, syn[:14] + ip + icmp), SYNS[1]])
    out = tmp_path / "x.pcapng"
    assert main(["explain", str(path), "--out", str(out)]) == 0
    shown = [
        text for _, text in tshark.printed(out, ("frame.number", "frame.comment"), "frame.comment")
    ]
    assert any("firewall" in text for text in shown)
    assert not any("Nothing answered" in text for text in shown)


def test_21_timestamps_in_microseconds_are_no_clock_that_is_set(tmp_path: Path) -> None:
    """As of tcp_usec_ts: 40 segments of each end, 50 ms apart, and one pause of 2 s."""
    made, at, seq = [], 0, 1001
    for number in range(40):
        at += 2_000_000 if number == 20 else 50_000
        for side, frame_seq, ack, length in ((0, seq, 5001, 100), (1, 5001, seq + 100, 0)):
            stamps = b"\1\1\x08\x0a" + struct.pack(">II", 7_000 + at + side, 0)
            frame = segment(PORT, side, frame_seq, ack, ACK, length=length, options=stamps)
            made.append((at + 100 * side, frame))
        seq += 100
    assert explain(capture(tmp_path / "x.pcap", made)).verdict.clock_steps == 0


def in_gre(frame: bytes, key: int, fragment: int = 0) -> bytes:
    inner = b"\x20\0\x08\0" + struct.pack(">I", key) + frame[14:]
    ends = b"\xc0\0\2\1", b"\xc0\0\2\2"
    size = 20 + len(inner)
    outer = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, fragment, 64, 47, 0, *ends)
    return frame[:14] + outer + inner


def test_22_keys_of_gre_may_differ_per_direction(tmp_path: Path) -> None:
    made = [*answered(), *burst(40_500, 5001, 2)]
    keyed = [(at, in_gre(frame, 1 + (frame[26:30] == b"\x0a\0\0\1"))) for at, frame in made]
    (account,) = explain(capture(tmp_path / "x.pcap", keyed)).accounts
    assert (account.client_bytes, account.server_bytes) == (200, 2920)


def test_22_a_later_fragment_of_a_tunnel_has_no_header(tmp_path: Path) -> None:
    made = [*answered(), (50_000, in_gre(segment(PORT, 1, 9, 9, ACK, length=99), 1, fragment=64))]
    file_account = explain(capture(tmp_path / "x.pcap", made))
    assert len(file_account.accounts) == 1 and file_account.remarks.counts["later_fragments"] == 1


def test_every_rule_is_in_a_list() -> None:
    """A rule that no list has would never be asked."""
    made = {
        value
        for name, value in vars(rules).items()
        if getattr(value, "__module__", "") == rules.__name__ and not name.startswith("_")
        if [*getattr(value, "__annotations__", {})] == ["ending", "return"]
    }
    assert made == {rule for kind in rules.RULES.values() for rule in kind} and len(made) > 25


@pytest.mark.parametrize("reason", of.REASONS.values(), ids=str)
def test_every_reason_has_a_sentence(reason: of.Reason) -> None:
    for count, time_ms in ((1, 5.0), (3, 0.0)):
        finding = Finding(reason, "client", "server", count, time_ms, 0, ((3, 4),), "likely")
        assert finding.sentence.endswith(" (likely) [frames 3-4].")
        assert "{" not in finding.sentence
