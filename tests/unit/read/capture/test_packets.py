"""One packet in scapy and pyshark, and Wireshark's flags of chosen ones beside the marks here."""

from __future__ import annotations

import asyncio
import gzip
import shutil
from pathlib import Path

import pandas
import pytest

from labs.errors import BadInput, Missing, RunFailed
from labs.read.capture import connections, in_pyshark, packet, read, wireshark_flags
from labs.read.capture.packets import offset_of, record_at
from labs.read.capture.tcp_marks import marks
from tests.made_flows import ACK, BEGIN_US, capture, segment
from tests.tshark import version

FOLDER = Path(__file__).parents[3] / "fixtures" / "exchanges"
STOPPED = FOLDER / "stopped-reader.pcap"
LOSSY = FOLDER / "lossy.pcap.gz"
tshark = pytest.mark.skipif(not version(), reason="tshark is not here")


@pytest.fixture(params=["stopped-reader.pcap", "nagle-no-k.pcapng.gz", "lossy.pcap.gz"])
def path(request: pytest.FixtureRequest) -> Path:
    return FOLDER / str(request.param)


def test_packet_is_the_row_in_scapy(path: Path) -> None:
    table = read(path)
    for row in (0, len(table) // 2, len(table) - 1):
        opened, expected = packet(path, row), table.iloc[row].to_dict()
        tcp = opened["TCP"]
        assert (tcp.seq, tcp.ack, int(tcp.flags), tcp.window) == tuple(
            int(expected[name]) for name in ("seq", "ack", "flags", "window")
        )
        assert float(opened.time) == pytest.approx(expected["time_ns"] / 1e9, abs=1e-6)
        known = connections(path).iloc[expected["connection"]]
        ends = [(known["client"], known["client_port"]), (known["server"], known["server_port"])]
        assert (opened["IP"].src, tcp.sport) == ends[expected["direction"]]


def test_packet_accepts_a_row_or_its_number(path: Path) -> None:
    table = read(path)
    expected = bytes(packet(path, 20))
    assert bytes(packet(path, table.iloc[20])) == bytes(packet(path, table.index[20])) == expected


def test_packet_of_another_link_type_has_its_own_layer(tmp_path: Path) -> None:
    """Raw IP is link type 101, Linux cooked 113; a type that nobody knows is bytes."""
    frame = segment(20_000, 0, 1000, 2000, ACK)
    cooked = b"\0\0\0\1\0\6" + bytes(8) + frame[12:]
    for link_type, content, first in (
        (101, frame[14:], "IP"),
        (113, cooked, "cooked linux"),
        (147, frame, "Raw"),
    ):
        path = capture(tmp_path / "other.pcap", [(BEGIN_US, content)])
        whole = path.read_bytes()
        path.write_bytes(whole[:20] + link_type.to_bytes(4, "little") + whole[24:])
        opened = packet(path, pandas.Series({"offset": 24}))
        assert opened.name == first
        assert first == "Raw" or opened["TCP"].seq == 1000


def test_record_at_is_the_record_of_a_row() -> None:
    table = read(STOPPED)
    for row in (0, 3, 68):
        offset = offset_of(STOPPED, row)
        assert offset == table["offset"][row]
        assert record_at(STOPPED, offset).time_ns == table["time_ns"][row]


def test_record_at_finds_one_late_in_a_long_file(tmp_path: Path) -> None:
    """Behind all that the reader walks at a time."""
    frame = segment(20_000, 0, 1000, 2000, ACK)
    path = capture(tmp_path / "long.pcap", [(BEGIN_US + at, frame) for at in range(20_000)])
    offset = offset_of(path, 19_000)
    assert offset == 24 + 19_000 * (16 + len(frame))
    assert record_at(path, offset).time_ns == (BEGIN_US + 19_000) * 1000
    assert float(packet(path, 19_000).time) == pytest.approx((BEGIN_US + 19_000) / 1e6)


def test_packet_and_record_refuse_missing_rows_and_offsets() -> None:
    with pytest.raises(BadInput, match=r"no row 69\. Allowed: rows 0 to 68"):
        packet(STOPPED, 69)
    with pytest.raises(BadInput):
        packet(STOPPED, -1)
    with pytest.raises(BadInput, match="no record begins at byte 25"):
        record_at(STOPPED, 25)


@tshark
def test_wireshark_flags_equal_own_marks() -> None:
    frames, segments = [8, 9, 15, 24, 56], read(STOPPED)
    table = wireshark_flags(STOPPED, [*reversed(frames), segments["frame"][7]])
    own = marks(segments)[segments["frame"].isin(frames)]
    assert table["frame"].tolist() == frames
    assert (
        [", ".join(own.columns[row]) for row in own.to_numpy()]
        == table["wireshark"].tolist()
        == ["retransmission, window_full", "zero_window", "window_update", "", "keep_alive_ack"]
    )
    assert "TCP Zero Window segment" in table["expert"][1] and not table["expert"][3]
    assert float(table["tcp.analysis.ack_rtt"][3]) == pytest.approx(0.001122)
    # Record 8 sends record 7 again, while record 6 is not acknowledged either: tshark 4.0 measures
    # from the oldest segment in flight, 4.4 from the one that is retransmitted.
    assert table["tcp.analysis.rto_frame"][0] == ("6" if version() == "4.0" else "7")


@tshark
def test_in_pyshark_inside_a_running_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("pyshark")

    async def cell() -> str:
        return in_pyshark(LOSSY, 7)

    header = asyncio.run(cell())
    assert "Acknowledgment Number: 1449 " in header
    assert [record for record in caplog.records if record.name == "asyncio"] == []


@tshark
def test_wireshark_flags_fails_after_its_timeout() -> None:
    with pytest.raises(RunFailed, match=r"did not finish within 0\.001 s"):
        wireshark_flags(LOSSY, [2000], timeout_s=0.001)


@tshark
def test_wireshark_flags_of_what_is_no_capture(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_text("no capture")
    with pytest.raises(RunFailed, match="tshark could not read"):
        wireshark_flags(tmp_path / "x.pcap", [1])


@pytest.mark.parametrize("frames", [[], list(range(201))])
def test_wireshark_flags_refuses_no_frames_and_too_many(frames: list[int]) -> None:
    with pytest.raises(BadInput, match="Allowed: 1 to 200"):
        wireshark_flags(STOPPED, frames)


def test_wireshark_flags_without_tshark_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(FOLDER))
    assert shutil.which("tshark") is None
    with pytest.raises(Missing, match="apt-get install tshark"):
        wireshark_flags(STOPPED, [1])


def test_packet_of_a_cut_capture(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap.gz"
    cut.write_bytes(gzip.compress(STOPPED.read_bytes())[:600])
    table = read(cut)
    assert bytes(packet(cut, len(table) - 1)) == bytes(packet(STOPPED, len(table) - 1))
    with pytest.raises(BadInput):
        packet(cut, len(table))
