"""`labs capture ladder` and `labs capture stalls`, and what does not fit in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from labs.errors import Missing
from labs.read.capture import connections, read, reader, segment_table
from labs.read.flows import connection_state
from labs.read.flows.exchanges import exchanges
from labs.read.flows.waits import stalls
from tests.captures import without_syns

FOLDER = Path(__file__).parents[2] / "fixtures" / "exchanges"
NAGLE, OUTAGE = FOLDER / "nagle-off.pcap.gz", FOLDER / "outage.pcap"
DOWNLOAD = FOLDER / "download.pcap.gz"


def told(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    assert main([*map(str, words), "--json"]) == 0
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    return report


def refused(capsys: pytest.CaptureFixture[str], *words: object, code: int = 2) -> str:
    assert main(list(map(str, words))) == code
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    return printed.err


def test_main_ladder_writes_one_page_that_works_offline(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "ladder.html"
    asked = ("capture", "ladder", NAGLE, "--connection", 3, "--out", out)
    assert told(capsys, *asked, "--dry-run")["written"] is False and not out.exists()
    report = told(capsys, *asked)
    rows = report["rows"]
    assert isinstance(rows, list)
    packets = read(NAGLE).query("connection == 3")
    assert rows == [packets.index[0], packets.index[39]]
    page = out.read_text()
    assert "delayed ACK meets Nagle" in page and "from the file nagle-off.pcap.gz" in page
    assert 'src="http' not in page
    assert list(tmp_path.iterdir()) == [out]


def test_main_graph_draws_the_longest_connection_or_the_one_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "graph.html"
    asked = ("capture", "graph", NAGLE, "--out", out)
    longest = read(NAGLE)["connection"].value_counts().index[0]
    assert told(capsys, *asked, "--dry-run")["written"] is False and not out.exists()
    assert told(capsys, *asked)["connection"] == longest
    assert "data of the server on connection" in out.read_text()
    told(capsys, *asked, "--connection", 3, "--sender", "client", "--to-s", 0.1)
    page = out.read_text()
    assert "data of the client on connection 3" in page and 'src="http' not in page
    assert "connections 0 to 19" in refused(capsys, *asked, "--connection", 20)
    for words in (("--from-s", 2, "--to-s", 1), ("--from-s", -1), ("--to-s", "nan")):
        assert "--from-s less than --to-s" in refused(capsys, *asked, *words)
    assert ".html" in refused(capsys, *asked[:-1], tmp_path / "graph.png")


def test_main_ladder_takes_seconds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One connection, of which 39 further packets are drawn if only the first moment is given."""
    segments = read(OUTAGE)
    since_s = list((segments["time_ns"] - segments["time_ns"].iloc[0]) / 1e9)
    first, last = 17, 31
    begin_s, end_s = ((since_s[row - 1] + since_s[row]) / 2 for row in (first, last + 1))
    out = ("--out", tmp_path / "x.html", "--dry-run")
    asked = ("capture", "ladder", OUTAGE, *out, "--from-s", begin_s)
    assert told(capsys, *asked, "--to-s", end_s)["rows"] == [first, last]
    assert told(capsys, *asked)["rows"] == [first, first + 39]


def test_main_ladder_writes_nothing_that_cannot_be_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "ladder.html"
    ladder = ("capture", "ladder", OUTAGE, "--out", out)
    assert "at most 120 fit" in refused(
        capsys, "capture", "ladder", FOLDER / "lossy.pcap.gz", "--frames", "1-2000", "--out", out
    )
    assert "connections 0 to 0" in refused(capsys, *ladder, "--connection", 4)
    assert "--from-s" in refused(capsys, *ladder, "--from-s", "soon")
    assert "no TCP segment" in refused(capsys, *ladder, "--from-s", 9000)
    assert "must end in .html" in refused(capsys, "capture", "ladder", OUTAGE, "--out", "x.png")
    assert "no such file" in refused(capsys, "capture", "ladder", tmp_path / "no", "--out", out)
    assert not out.exists()


def test_main_stalls_as_json_has_reasons_and_each_stall(capsys: pytest.CaptureFixture[str]) -> None:
    report = told(capsys, "capture", "stalls", NAGLE)
    reasons, stalls = report["reasons"], report["stalls"]
    assert isinstance(reasons, list) and isinstance(stalls, list)
    assert [(reason["reason"], reason["stalls"]) for reason in reasons] == [
        ("delayed ACK meets Nagle", 180)
    ]
    assert "tcp_nagle_check" in reasons[0]["source"]
    assert len(stalls) == 180 and {stall["waiting"] for stall in stalls} == {"server"}
    assert sum(stall["gap_ms"] for stall in stalls) == pytest.approx(reasons[0]["together_ms"])


def test_main_stalls_name_frames_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """Frames are counted as tshark counts them; --connection takes both ends of a connection."""
    rows = told(capsys, "capture", "stalls", DOWNLOAD)["stalls"]
    assert isinstance(rows, list) and len(rows) == 1
    row = rows[0]
    assert (row["reason"], row["frames"]) == ("delayed ACK", "316-317")
    assert (row["client"], row["server"]) == ("10.77.0.2:56370", "10.77.0.1:80")
    ends = "10.77.0.2:45732-10.77.0.1:80"
    for word in ("0", ends):
        stalls_of_one = told(capsys, "capture", "stalls", NAGLE, "--connection", word)["stalls"]
        assert isinstance(stalls_of_one, list) and len(stalls_of_one) == 9
        assert {stall["connection"] for stall in stalls_of_one} == {0}
    error = refused(capsys, "capture", "stalls", NAGLE, "--connection", "1.2.3.4:5-6.7.8.9:10")
    assert "connections 0 to 19" in error and "A" not in error[:4]


def test_main_ladder_takes_frames(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ("capture", "ladder", DOWNLOAD, "--out", tmp_path / "x.html")
    assert told(capsys, *asked, "--frames", "310-320")["rows"] == [309, 319]
    for word in ("320-310", "soon", "9000-9001"):
        assert "--frames" in refused(capsys, *asked, "--frames", word)


def test_main_graph_draws_three_seconds_by_default(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A download of 1.8 s as a whole, and three seconds of a connection that idles for longer."""
    graph = ("capture", "graph", "--out", tmp_path / "x.html", "--dry-run")
    assert told(capsys, *graph, DOWNLOAD)["to_s"] == pytest.approx(1.8, abs=0.01)
    stopped = FOLDER / "stopped-reader.pcap"
    assert told(capsys, *graph, stopped)["to_s"] == 3
    assert told(capsys, *graph, stopped, "--from-s", 1)["to_s"] == 4
    assert "after the end" in refused(capsys, *graph, stopped, "--from-s", 9000)
    whole = told(capsys, *graph, stopped, "--whole")["to_s"]
    assert isinstance(whole, float) and whole > 4
    assert main([*map(str, graph), str(stopped)]) == 0
    assert "0 to 3 s of " in capsys.readouterr().out


def test_main_stalls_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "stalls", str(OUTAGE)]) == 0
    text = capsys.readouterr().out
    assert "the longest 10:" in text and "retransmission timeout: " in text
    assert text.splitlines()[1].startswith("retransmission timeout")  # the longest together
    assert main(["capture", "stalls", str(OUTAGE), "--min-gap-ms", "5000"]) == 0
    assert "no gap is certain to be longer than an RTT" in capsys.readouterr().out


@pytest.mark.parametrize("min_gap_ms", ["nan", "-5", "0", "inf"])
def test_main_stalls_refuses_a_minimum_not_above_0(
    capsys: pytest.CaptureFixture[str], min_gap_ms: str
) -> None:
    words = ("capture", "stalls", OUTAGE, f"--min-gap-ms={min_gap_ms}")
    assert "--min-gap-ms" in refused(capsys, *words)


def test_say_names_what_the_file_lacks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cut, whole = tmp_path / "cut.pcap", OUTAGE.read_bytes()
    cut.write_bytes(whole[:-10])
    for words in (["stalls"], ["ladder", "--from-s", "0", "--out", str(tmp_path / "x.html")]):
        assert main(["capture", words[0], str(cut), *words[1:]]) == 0
        assert "the last record is truncated" in capsys.readouterr().err
    assert told(capsys, "capture", "stalls", cut)["cut_bytes"]


def test_main_stalls_with_missing_packets(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    holed, whole = tmp_path / "holed.pcap", OUTAGE.read_bytes()
    segments = read(OUTAGE)
    row = int(segments.index[segments["payload_bytes"] > 0][5])
    begin, end = (int(segments["offset"][row_of_packet]) for row_of_packet in (row, row + 1))
    holed.write_bytes(whole[:begin] + whole[end:])
    assert main(["capture", "stalls", str(holed)]) == 0
    assert "times the capture lacks packets" in capsys.readouterr().err
    assert told(capsys, "capture", "stalls", OUTAGE)["acks_of_missing"] == 0


def test_of_undecided_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A capture from after the handshake on: what may be an RTT is no stall, and counted."""
    late = without_syns(FOLDER / "nagle-delay.pcap.gz", tmp_path / "late.pcap")
    assert main(["capture", "stalls", str(late)]) == 0
    assert "not listed, because they may be no longer than an RTT" in capsys.readouterr().err
    report = told(capsys, "capture", "stalls", late)
    assert report["rtt_unknown"] and report["undecided"] == 124
    whole = told(capsys, "capture", "stalls", NAGLE)
    assert (whole["rtt_unknown"], whole["undecided"], whole["longest_undecided_ms"]) == (0, 0, 0)
    assert isinstance(whole["stalls"], list) and all(
        stall["rtt_ms"] < 1 for stall in whole["stalls"]
    )
    assert main(["capture", "ladder", str(late), "--out", str(tmp_path / "x.html")]) == 0
    assert "the RTT cannot be measured" in (tmp_path / "x.html").read_text()


def test_main_ladder_refuses_a_capture_without_tcp(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bare = tmp_path / "bare.pcap"
    bare.write_bytes(OUTAGE.read_bytes()[:24])
    assert main(["capture", "connections", str(bare)]) == 0
    assert capsys.readouterr().out == f"{bare}: no TCP at all\n"
    for verb in ("ladder", "graph"):
        assert "the capture has no TCP at all" in refused(
            capsys, "capture", verb, bare, "--out", tmp_path / "x.html"
        )


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (("stalls", NAGLE), "the connection state of 1,140 segments"),
        (("ladder", NAGLE, "--out", "x.html"), "the packets of connection 0"),
        (("connections", NAGLE), "20 connections as a list"),
        (("connections", NAGLE, "--json"), "20 connections as a list"),
    ],
)
def test_main_connections_refuses_what_does_not_fit_in_memory(
    asked: tuple[object, ...],
    what: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the table of segments has just gone in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(segment_table, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(reader, "ROW_BYTES", 0)
    (tmp_path / "meminfo").write_text("MemTotal: 4000000 kB\nMemAvailable: 10 kB\n")
    error = refused(capsys, "capture", *asked, code=3)
    assert what in error and "tcpdump -r FILE" in error
    assert not (tmp_path / "x.html").exists()


def test_main_stalls_refuses_what_does_not_fit_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = read(NAGLE)
    monkeypatch.setattr(segment_table, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(connection_state, "ROW_BYTES", 0)
    (tmp_path / "meminfo").write_text("MemAvailable: 100 kB\n")
    with pytest.raises(Missing, match="180 stalls take 0 MB"):
        stalls(segments)
    with pytest.raises(Missing, match="200 requests take 0 MB"):
        exchanges(segments)
    (tmp_path / "meminfo").write_text("MemAvailable: 9 kB\n")
    with pytest.raises(Missing, match="20 connections take 0 MB"):
        connections(NAGLE)
