"""The capture reader says what tshark says, column by column, of every capture there is here."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from labs import capture
from tests import captures, tshark

FIXTURES = Path(__file__).parents[3] / "fixtures"
DATA = Path(__file__).parents[4] / "data"
REFUSED = DATA / "explain-connection-refused.pcap.gz"
REAL = sorted([*FIXTURES.glob("*/*.pcap*"), *DATA.glob("explain-*.pcap.gz")])
FRAGMENTS = ("fragments", "ipv6-fragments")
UNCAPTURED = ("first-14-bytes", "first-34-bytes", "first-40-bytes")
EMPTY = ("nothing", "other-link", *UNCAPTURED)

pytestmark = pytest.mark.skipif(not tshark.available(), reason="tshark is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return captures.made(tmp_path_factory.mktemp("captures"))


def assert_equal(path: Path) -> None:
    ours, theirs = tshark.as_tshark(capture.read(path)), tshark.segments(path)
    assert len(ours) == len(theirs) > 0
    assert set(ours) == set(theirs)
    for column in theirs:
        pd.testing.assert_series_equal(
            ours[column], theirs[column], check_dtype=False, obj=f"{path.name}: {column}"
        )


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_read_equals_tshark_on_real_runs(path: Path) -> None:
    assert_equal(path)


def test_read_equals_tshark_on_every_link_type_and_file_format(made: dict[str, Path]) -> None:
    for name, path in made.items():
        if name not in FRAGMENTS + EMPTY:
            assert_equal(path)


def test_read_continues_connections_in_a_second_section(made: dict[str, Path]) -> None:
    """The same two in both: here they go on, as in tshark 4.0; tshark 4.4 counts them twice."""
    path = made["pcapng"]
    streams = {int(stream) for (stream,) in tshark.asked(path, ("tcp.stream",))}
    assert streams == ({0, 1} if tshark.version() == "4.0" else {0, 1, 2, 3})
    assert set(capture.read(path)["connection"]) == {0, 1}


def test_read_has_no_rows_without_a_whole_tcp_header(made: dict[str, Path]) -> None:
    for name in EMPTY:
        assert len(capture.read(made[name])) == len(tshark.segments(made[name])) == 0


def test_read_has_the_header_of_a_first_fragment(made: dict[str, Path]) -> None:
    """tshark follows no connection of fragments: its own columns alone can be compared."""
    for name in FRAGMENTS:
        ours, theirs = capture.read(made[name]), tshark.segments(made[name], fragments=True)
        for column in ("time_ns", "seq", "ack", "flags", "window", "tsval", "tsecr"):
            assert ours[column].tolist() == theirs[column].tolist(), (name, column)


def test_connections_handshake_rtt_equals_tshark(made: dict[str, Path]) -> None:
    for path in (*REAL, made["reused-ports"], made["pcapng"], made["without-syn"]):
        fields = ("tcp.stream", "tcp.analysis.initial_rtt")
        theirs = {
            tshark.connection(path, stream): tshark.nanoseconds(rtt)
            for stream, rtt in tshark.asked(path, fields)
            if rtt
        }
        found = capture.connections(path)
        ours = {
            number: rtt for number, rtt in enumerate(found["handshake_rtt_ns"].tolist()) if rtt >= 0
        }
        # Wireshark times any ACK after a SYN; here the SYN-ACK must have been seen too.
        lost = 1 if path in (made["reused-ports"], REFUSED) else 0
        assert len(theirs) - len(ours) == lost
        assert ours.items() <= theirs.items()


SYN = 2
OFFERED = {
    "mss": "tcp.options.mss_val",
    "wscale": "tcp.options.wscale.shift",
    "sack_permitted": "tcp.options.sack_perm",
    "timestamps": "tcp.options.timestamp.tsval",
}
# Scaling is what both SYNs agree on, by at most 14 (RFC 7323 2.2, 2.3); tshark has what one offers.
WITHOUT_SCALING = {
    ("no-scaling", "server"): -1,
    ("server-without-scaling", "client"): -1,
    ("scale-too-large", "server"): 14,
}


def offered(path: Path) -> dict[tuple[int, str], list[int]]:
    """What the last SYN of each end of each connection offered, as tshark has it."""
    found = {}
    fields = ("tcp.flags", "tcp.stream", "tcp.flags.ack", *OFFERED.values())
    for flags, stream, ack, mss, scale, sack, stamp in tshark.asked(path, fields):
        if not flags or not tshark.number(flags) & SYN:
            continue  # not captured up to its flags, or no SYN
        end = "server" if tshark.number(ack) == 1 else "client"
        found[tshark.connection(path, stream), end] = [
            tshark.number(mss),
            tshark.number(scale),
            int(bool(sack)),
            int(bool(stamp)),
        ]
    return found


def test_connections_syn_options_equal_tshark(made: dict[str, Path]) -> None:
    """Of captures that have their options whole."""
    compared = 0
    for path in (
        *REAL,
        *(
            made[name]
            for name in made
            if name not in FRAGMENTS + EMPTY and not name.startswith("first-")
        ),
    ):
        theirs, rows = offered(path), capture.connections(path)
        for end in ("client", "server"):
            for number, row in enumerate(
                rows[[f"{end}_{name}" for name in OFFERED]].to_numpy().tolist()
            ):
                expected = theirs.get((number, end), [-1] * len(OFFERED))
                expected[1] = WITHOUT_SCALING.get((path.stem, end), expected[1])
                assert row == expected, (path.name, number, end)
                compared += (number, end) in theirs
    assert compared > 100
