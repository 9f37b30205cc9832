"""A capture in a notebook: the ten that come with it have the reasons that their files name."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

import labs
from labs.errors import BadInput
from labs.read.flows import reasons as of
from labs.read.runs import recorded
from labs.studies.capture_account import CAPTURES, CaptureParameters, Explained, examples, explained
from tests import tshark

NAGLE, TIMEOUT = "A", "B"
SHOWS = {
    "SYN-repeated": of.SYN_REPEATED,
    "connection-refused": of.REFUSED,
    "connection-unanswered": of.UNANSWERED,
    "delayed-ACK": of.DELAYED_ACK,
    "delayed-ACK-meets-Nagle": of.NAGLE_AND_DELAYED_ACK,
    "fast-recovery": of.FAST_RECOVERY,
    "gave-up": of.GAVE_UP,
    "reset": of.RESET,
    "retransmission-timeout": of.TIMEOUT,
    "zero-window": of.ZERO_WINDOW,
}


def seen(capture: str, connection: str = "") -> Explained:
    return explained(CaptureParameters(capture=capture, connection=connection))


def test_examples_are_ten_captures_with_the_reason_that_their_file_names() -> None:
    assert "".join(examples()) == "ABCDEFGHIJ" and set(CAPTURES.values()) == set(SHOWS)
    assert sorted(examples().values()) == sorted(recorded.folder().glob("explain-*"))
    for letter, cause in CAPTURES.items():
        account = seen(letter).chosen
        assert account is not None and SHOWS[cause] in {
            finding.reason for finding in account.findings
        }


def test_figures_name_the_letter_and_not_the_file_that_has_the_cause_in_its_name() -> None:
    for letter in CAPTURES:
        view = seen(letter)
        for figure in (view.timeline(), view.chart(), view.ladder()):
            assert "explain-" not in figure.to_json()
    assert "capture A" in seen(NAGLE).timeline().to_json()


def test_ladder_without_reasons_shows_the_silence_and_not_who_waits() -> None:
    shown, asked = seen(NAGLE).ladder().to_json(), seen(NAGLE).ladder(reasons=False).to_json()
    for words in (str(of.NAGLE_AND_DELAYED_ACK), "the server waits for the client"):
        assert words in shown and words not in asked
    assert "63.3 ms of silence" in shown and "63.3 ms of silence" in asked
    for letter in CAPTURES:
        account, figure = seen(letter).chosen, seen(letter).ladder(reasons=False)
        assert account is not None and account.worst is not None
        words = figure.layout.meta["tell"] + figure.layout.title.text
        assert account.worst.reason.name not in words


def test_explained_shows_every_part_of_every_example() -> None:
    for letter in CAPTURES:
        view = seen(letter)
        assert view.capture and len(view.connections) == 1
        assert view.account.startswith("**connection 0: ")
        assert view.frames and len(set(view.frames)) == len(view.frames)
        for figure in (view.chart(), view.timeline(), view.ladder()):
            assert figure.layout.meta["tell"]


def test_packet_opens_the_frame_that_a_sentence_names() -> None:
    """By its number as tshark counts: the same acknowledgement number in scapy and in the table."""
    pytest.importorskip("scapy")
    view = seen(NAGLE)
    frame = view.frames[-1]
    (row,) = view.segments[view.segments["frame"] == frame].to_dict("records")
    assert f"ack       = {row['ack']}\n" in view.packet(frame)
    with pytest.raises(BadInput, match="frame 9999 is no TCP segment"):
        view.packet(9999)


@pytest.mark.skipif(not tshark.available(), reason="tshark is not installed")
def test_wireshark_has_a_row_for_each_named_frame() -> None:
    pytest.importorskip("pyshark")
    view = seen(TIMEOUT)
    shown = view.wireshark()
    assert isinstance(shown, pandas.DataFrame)
    assert list(shown["Record"]) == sorted(view.frames)
    assert shown["Wireshark's flags"].str.contains("retransmission").any()


def test_explained_takes_a_file_and_a_connection(tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "fixtures" / "exchanges" / "nagle-off.pcap.gz"
    ends = "10.77.0.2:45748-10.77.0.1:80"
    for word in ("2", ends, "10.77.0.1:80-10.77.0.2:45748"):
        view = seen(str(path), word)
        assert (
            view.chosen is not None and view.chosen.connection == 2 and len(view.connections) == 20
        )
    for wrong in ("20", "1.2.3.4:5-6.7.8.9:1"):
        with pytest.raises(BadInput, match="has no connection"):
            seen(str(path), wrong)
    nothing = tmp_path / "empty.pcap"
    nothing.write_bytes(b"\xd4\xc3\xb2\xa1\2\0\4\0" + bytes(12) + b"\1\0\0\0")
    empty = seen(str(nothing))
    assert empty.chosen is None and "no TCP" in empty.account and empty.frames == []
    for figure in (empty.chart(), empty.timeline(), empty.ladder()):
        assert figure.layout.meta["tell"]


def test_check_capture_names_the_captures_that_exist() -> None:
    assert labs.check_capture({}) == CaptureParameters()
    with pytest.raises(BadInput, match=r"AA is neither.*A, B, C") as error:
        labs.check_capture({"CAPTURE": "AA"})
    assert "\n" not in str(error.value)
