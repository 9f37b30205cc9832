"""The capture reader: pieces that join, what is counted, what is refused."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow
import pytest
from scapy.layers.inet import IP, TCP
from scapy.packet import Raw

from labs import capture
from labs.errors import BadInput, Damaged, Missing
from labs.read.capture import segment_table
from labs.read.capture.reader import whole
from labs.read.capture.segment_table import ROW_BYTES
from labs.read.capture.source import UNJUDGED_BYTES
from tests import captures, made_flows
from tests.captures import ETHER, dialogue, over_ipv4, pcap
from tests.fuzz_capture import mutated
from tests.made_flows import ACK, SYN, segment

ROOT = Path(__file__).parents[4]
LOSS = ROOT / "tests" / "fixtures" / "parse" / "loss.pcap"
DIGEST = """
import sys
from hashlib import sha256
from labs.read.capture import source, reader, tcp_marks
from labs.errors import LabError
source.PIECE_BYTES = source.BEFORE_BYTES = int(sys.argv[1])
for path in sys.argv[2:]:
    try:
        columns, done = reader.read_columns(path)
    except LabError as error:
        print(type(error).__name__)
        continue
    digest = sha256(done.connections.tobytes() + done.counts.tobytes())
    for name, array in columns.arrays():
        digest.update(name.encode() + array.tobytes())
    digest.update(tcp_marks.Marker().bits(columns.table()).tobytes())
    print(digest.hexdigest())
"""


def digested(
    *paths: str, piece_bytes: int = 2**20, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """The digests of everything that is read from captures, by a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", DIGEST, str(piece_bytes), *paths],
        cwd=cwd,
        check=True,
        text=True,
        capture_output=True,
    )


def without_library(folder: Path) -> Path:
    """A folder with a copy of the package that has no compiled library."""
    leave = shutil.ignore_patterns("compiled-*", "__pycache__")
    shutil.copytree(ROOT / "labs", folder / "labs", ignore=leave)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return captures.made(tmp_path_factory.mktemp("captures"))


@pytest.mark.parametrize("rows", [1, 2, 7, 100, 10_000])
def test_batches_join_to_the_whole(made: dict[str, Path], rows: int) -> None:
    """A piece knows what earlier ones have seen: scales, relative numbers, who opened."""
    for path in (LOSS, made["reused-ports"], made["pcapng"], made["gzip"], made["nothing"]):
        pieces = list(capture.batches(path, rows=rows))
        assert all(len(piece) == rows for piece in pieces[:-1])
        assert len(pieces[-1]) or len(pieces) == 1
        pd.testing.assert_frame_equal(pd.concat(pieces, ignore_index=True), capture.read(path))


def test_batches_refuses_zero_rows() -> None:
    with pytest.raises(BadInput, match="rows=0"):
        next(capture.batches(LOSS, rows=0))


def test_read_columns_in_pieces_of_a_few_bytes_and_by_python(
    tmp_path: Path, made: dict[str, Path]
) -> None:
    """Each record takes several pieces; also of captures with random changes. Without the library
    Python reads the same, and would notice an index outside of a buffer."""
    chance = random.Random(1)
    sources = [path.read_bytes() for path in (LOSS, made["pcapng"], made["others"])]
    changed = [tmp_path / str(number) for number in range(200)]
    for path in changed:
        head = path.name[-1] != "0" and 28  # nine in ten are still captures
        source = chance.choice(sources)
        path.write_bytes(source[:head] + mutated(source[head:], sources, chance))
    paths = [str(path) for path in (LOSS, *made.values(), *changed)]
    digests, said = [], []
    for piece_bytes, cwd in ((2**20, ROOT), (64, ROOT), (64, without_library(tmp_path))):
        done = digested(*paths, piece_bytes=piece_bytes, cwd=cwd)
        digests.append(done.stdout.split())
        said.append(done.stderr)
    assert len(digests[0]) == len(paths)
    assert digests[1:] == digests[:1] * 2
    assert said[:2] == ["", ""]
    assert said[2].count("\n") == 1 and "make ready" in said[2]


def test_read_offset_is_the_place_of_the_record(made: dict[str, Path]) -> None:
    for name, begin in (("ethernet", 16), ("modified", 24), ("pcapng", 28)):
        content = made[name].read_bytes()
        table = capture.read(made[name])
        assert table["offset"].is_monotonic_increasing
        for offset, seq, ack in zip(
            *(table[column].tolist() for column in ("offset", "seq", "ack")), strict=True
        ):
            assert struct.pack(">II", seq, ack) in content[offset + begin :][20:70], name
    assert capture.read(made["gzip"])["offset"].equals(capture.read(made["ethernet"])["offset"])


def test_connections_client_is_who_opened(made: dict[str, Path]) -> None:
    for name, known_by in (
        ("ethernet", "syn"),
        ("without-syn", "syn-ack"),
        ("from-the-middle", "ports"),
        ("syn-after-syn-ack", "syn-ack"),
    ):
        only = capture.connections(made[name]).iloc[0]
        assert only["client_known_by"] == known_by, name
        assert (only["client"], only["client_port"]) == ("10.0.0.2", 40000)
        assert (only["server"], only["server_port"]) == ("10.0.0.1", 80)
    assert capture.read(made["from-the-middle"])["direction"].tolist()[:4] == [1, 1, 1, 0]


def test_connections_of_a_whole_connection(made: dict[str, Path]) -> None:
    only = capture.connections(made["ipv6"]).iloc[0].to_dict()
    assert only == {
        "connection": 0,
        "client": "fd00::2",
        "client_port": 40000,
        "server": "fd00::1",
        "server_port": 80,
        "client_known_by": "syn",
        "first_ns": captures.BEGIN_NS,
        "last_ns": captures.BEGIN_NS + 12 * captures.STEP_NS,
        "handshake_rtt_ns": 2 * captures.STEP_NS,
        "ended": "fin",
        "client_mss": 1460,
        "client_wscale": 7,
        "client_sack_permitted": 1,
        "client_timestamps": 1,
        "client_segments": 6,
        "client_bytes": 18,
        "client_retransmissions": 0,
        "server_mss": 1440,
        "server_wscale": 3,
        "server_sack_permitted": 1,
        "server_timestamps": 1,
        "server_segments": 7,
        "server_bytes": 2400,
        "server_retransmissions": 1,
    }


def test_connections_new_syn_on_the_same_ports_begins_another(made: dict[str, Path]) -> None:
    found = capture.connections(made["reused-ports"])
    assert found["client_segments"].tolist() == [6, 6, 6]
    assert found["ended"].tolist() == ["fin", "fin", "fin"]
    assert capture.connections(made["no-scaling"])["client_mss"].tolist() == [-1]
    assert capture.connections(made["no-scaling"])["server_wscale"].tolist() == [-1]


def test_connections_ended_by_a_reset(tmp_path: Path) -> None:
    frames = over_ipv4(ETHER, dialogue())[:5]
    frames.append(
        bytes(
            ETHER
            / IP(src="10.0.0.1", dst="10.0.0.2")
            / TCP(sport=80, dport=40000, flags="RA", seq=1, ack=1)
        )
    )
    assert capture.connections(pcap(tmp_path / "x", frames))["ended"].tolist() == ["reset"]
    assert capture.connections(pcap(tmp_path / "y", frames[:5]))["ended"].tolist() == ["open"]


def test_read_relative_numbers_do_not_wrap(tmp_path: Path) -> None:
    """A stream whose numbers pass 2**32 three times counts on."""
    step = 1 << 30
    frames = [
        bytes(
            ETHER
            / IP(src="10.0.0.1", dst="10.0.0.2")
            / TCP(sport=80, dport=40000, flags="A", seq=(5 + number * step) % 2**32, ack=1)
            / Raw(b"x")
        )
        for number in range(13)
    ]
    found = capture.read(pcap(tmp_path / "long.pcap", frames))
    assert found["seq_rel"].tolist() == [1 + number * step for number in range(13)]


def test_read_takes_the_last_of_two_sack_options(tmp_path: Path) -> None:
    frames = [
        bytes(
            ETHER
            / IP(src="10.0.0.1", dst="10.0.0.2")
            / TCP(
                sport=80,
                dport=40000,
                flags="A",
                seq=5,
                ack=1,
                options=[("SAck", (10, 20, 30, 40)), ("SAck", (50, 60))],
            )
        )
    ]
    row = capture.read(pcap(tmp_path / "two.pcap", frames)).iloc[0]
    assert row["sack_blocks"] == 1
    assert [row[f"sack_{side}_{block}"] for block in (1, 2, 3) for side in ("left", "right")] == [
        50,
        60,
        0,
        0,
        0,
        0,
    ]


def test_remarks_counts_what_has_no_row(made: dict[str, Path]) -> None:
    found = capture.remarks(made["others"])
    assert (found.packets, found.segments) == (25, 13)
    assert found.counts == {
        "not_ip": 3,
        "not_tcp": 2,
        "later_fragments": 1,
        "headers_cut": 2,
        "headers_damaged": 4,
    }
    assert sum(found.counts.values()) == found.packets - found.segments
    assert capture.remarks(made["other-link"]).counts == {"other_link_type": 1}
    assert capture.remarks(made["fragments"]).counts == {
        "later_fragments": 13,
        "first_fragments": 13,
    }


def test_remarks_counts_headers_nested_without_end(tmp_path: Path) -> None:
    tags = bytes(ETHER)[:12] + b"\x81\x00\0\1" * 5000
    extensions = (
        bytes(ETHER)[:12]
        + b"\x86\xdd\x60"
        + bytes(3)
        + b"\xff\xff\0\0"
        + bytes(32)
        + bytes(8) * 5000
    )
    found = capture.remarks(pcap(tmp_path / "deep.pcap", [tags, extensions]))
    assert found.counts == {"nested_too_deep": 2}


def test_read_of_a_file_cut_anywhere(tmp_path: Path, made: dict[str, Path]) -> None:
    for name, header in (("ethernet", 24), ("pcapng", 28)):
        content, whole = made[name].read_bytes(), capture.read(made[name])
        for end in range(header, len(content), 13):
            path = tmp_path / "cut"
            path.write_bytes(content[:end])
            part, found = capture.read(path), capture.remarks(path)
            pd.testing.assert_frame_equal(part, whole.iloc[: len(part)])
            assert found.damaged_at is None
            assert 0 <= found.cut_bytes < 2000


def test_read_of_compressed_and_cut_files(tmp_path: Path) -> None:
    content = LOSS.read_bytes()
    packed = gzip.compress(content[:9000]) + gzip.compress(content[9000:])
    (tmp_path / "members.gz").write_bytes(packed)
    (tmp_path / "whole.zst").write_bytes(
        pyarrow.Codec("zstd").compress(content[:9000], asbytes=True)
        + pyarrow.Codec("zstd").compress(content[9000:], asbytes=True)
    )
    for name in ("members.gz", "whole.zst"):
        pd.testing.assert_frame_equal(capture.read(tmp_path / name), capture.read(LOSS))
    (tmp_path / "cut.gz").write_bytes(packed[:-100])
    found = capture.remarks(tmp_path / "cut.gz")
    assert found.damaged_at is not None and found.segments > 200
    assert "damaged from byte" in found.lines[-1]
    # zstd gives what it has unpacked in pieces of 64 KiB: of this one, nothing.
    (tmp_path / "cut.zst").write_bytes((tmp_path / "whole.zst").read_bytes()[:-100])
    with pytest.raises(Damaged, match="ends early"):
        capture.remarks(tmp_path / "cut.zst")


def test_remarks_damaged_at_an_impossible_length(tmp_path: Path, made: dict[str, Path]) -> None:
    content = bytearray(made["ethernet"].read_bytes())
    second = int(capture.read(made["ethernet"])["offset"][1])
    content[second + 8 : second + 12] = b"\xff\xff\xff\x7f"
    (tmp_path / "long.pcap").write_bytes(content)
    assert len(capture.read(tmp_path / "long.pcap")) == 1
    assert capture.remarks(tmp_path / "long.pcap").damaged_at == second
    sections = bytearray(made["pcapng"].read_bytes())
    place = int(capture.read(made["pcapng"])["offset"][3])
    sections[place + 4] = 3
    (tmp_path / "odd.pcapng").write_bytes(sections)
    assert len(capture.read(tmp_path / "odd.pcapng")) == 3
    assert capture.remarks(tmp_path / "odd.pcapng").damaged_at == place


def test_remarks_counts_absurd_times(tmp_path: Path) -> None:
    frames = over_ipv4(ETHER, dialogue())[:3]
    content = (
        captures.section("<")
        + captures.interface("<", 1, 9)
        + captures.enhanced("<", 0, 1 << 63, frames[0])
        + captures.simple("<", frames[1])
        + captures.interface("<", 1, 9, offset_s=-(1 << 62))
        + captures.enhanced("<", 1, 10**18, frames[2])
    )
    (tmp_path / "times.pcapng").write_bytes(content)
    assert capture.read(tmp_path / "times.pcapng")["time_ns"].tolist() == [0, 0, 0]
    assert capture.remarks(tmp_path / "times.pcapng").counts == {
        "without_time": 1,
        "absurd_time": 2,
    }


def test_remarks_counts_backward_times(tmp_path: Path) -> None:
    frames = over_ipv4(ETHER, dialogue())[:2]
    content = (
        captures.section(">")
        + captures.interface(">", 1, 6, offset_s=-100)
        + captures.enhanced(">", 0, 105_000_000, frames[0])
        + captures.enhanced(">", 0, 1_500_000, frames[1])
    )
    (tmp_path / "before.pcapng").write_bytes(content)
    assert capture.read(tmp_path / "before.pcapng")["time_ns"].tolist() == [5 * 10**9, -985 * 10**8]
    assert capture.remarks(tmp_path / "before.pcapng").counts == {"backwards": 1}


def test_read_refuses_what_is_no_capture(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("this is not a capture, and long enough to be one")
    (tmp_path / "short").write_bytes(LOSS.read_bytes()[:20])
    for name, error, words in (
        ("empty", Damaged, "is empty"),
        ("text", Damaged, "not a capture"),
        ("short", Damaged, "not a capture"),
        ("none", BadInput, "no such"),
        (".", BadInput, "is a folder"),
    ):
        with pytest.raises(error, match=words) as caught:
            capture.read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_read_refuses_what_is_no_file_without_opening_it(tmp_path: Path) -> None:
    """A pipe would block whoever opens it, and /dev/zero has no end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
    for name in ("pipe", "zero", "loop", "socket", "a" * 300, "nul\0", "text/below"):
        with pytest.raises(BadInput):
            capture.read(tmp_path / name)


def test_read_names_a_file_that_the_system_cannot_read() -> None:
    """The memory of this process begins with an address that nothing is at."""
    with pytest.raises(Damaged, match=r"/proc/self/mem: the system cannot read it: input/output"):
        capture.read("/proc/self/mem")


def test_read_of_more_packets_than_fit_in_memory(tmp_path: Path) -> None:
    """The file claims 67 million packets of no bytes, of which none has a row."""
    with (tmp_path / "sparse.pcap").open("wb") as file:
        file.write(LOSS.read_bytes()[:24])
        file.truncate(1 << 30)
    assert capture.read(tmp_path / "sparse.pcap", memory_bytes=1 << 20).empty


def test_read_names_a_file_that_unpacks_without_measure(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zst"
    content = LOSS.read_bytes()[:24] + bytes(UNJUDGED_BYTES + (20 << 20))
    path.write_bytes(pyarrow.Codec("zstd").compress(content, asbytes=True))
    with pytest.raises(Damaged, match=r"bomb\.zst: more than 2,000 bytes unpack from each byte"):
        capture.read(path)


@pytest.mark.parametrize("call", ["next(batches(path, rows=10**7))", "read(big)"])
def test_read_within_the_address_space_of_the_process(call: str, tmp_path: Path) -> None:
    """`ulimit -v` leaves 4 MB: too little for ten million rows, or to read ahead in a thread."""
    big = pcap(tmp_path / "big.pcap", [over_ipv4(ETHER, dialogue())[3] + bytes(60_000)] * 40)
    code = f"""
import resource, sys
from labs.errors import Missing
from labs.read.capture import batches, read, segment_table
path, big = sys.argv[1:]
read(path)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), -1))
assert segment_table.available_bytes() <= 4 << 20
try: {call}
except Missing as error: print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(LOSS), str(big)], cwd=ROOT, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert "memory" in done.stdout and ".pcap: " in done.stdout


def test_read_refuses_what_does_not_fit_in_memory() -> None:
    enough = 272 * ROW_BYTES
    with pytest.raises(Missing, match="272 segments take 0 MB") as caught:
        capture.read(LOSS, memory_bytes=enough - 1)
    assert "batches" in str(caught.value)
    assert len(capture.read(LOSS, memory_bytes=enough)) == 272


def test_available_bytes_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_table, "CGROUP", tmp_path)
    system = segment_table.available_bytes()
    assert system is not None
    (tmp_path / "memory.current").write_text("7000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 2000000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert segment_table.available_bytes() == pytest.approx(system, rel=0.2)
    (tmp_path / "memory.max").write_text("9000000\n")
    assert segment_table.available_bytes() == 4_000_000


def many(path: Path) -> Path:
    """A capture of 3,000 connections, two segments each."""
    frames = [
        bytes(
            IP(src=f"10.1.{number // 250}.{number % 250}", dst="10.0.0.1")
            / TCP(sport=1000 + number, dport=80, flags="S", seq=number)
        )
        for number in range(3000)
    ]
    return pcap(path, frames + frames, 101)


def test_read_makes_room_for_many_connections(tmp_path: Path) -> None:
    path = many(tmp_path / "many.pcap")
    found = capture.read(path)
    assert found["connection"].tolist() == [*range(3000), *range(3000)]
    assert capture.connections(path)["client_segments"].tolist() == [2] * 3000
    with pytest.raises(Missing):
        capture.read(path, memory_bytes=1_000_000)


def test_read_closes_a_file_that_it_refuses_midway(tmp_path: Path) -> None:
    """Its 3,000 connections take more memory than there is."""
    path = many(tmp_path / "many.pcap")
    for way in (whole, capture.read):
        with pytest.raises(Missing) as caught:
            way(path, memory_bytes=1_000_000)
        held = [os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")]
        assert str(path.resolve()) not in held, caught.value  # whose frames hold the reader


def test_capture_table_and_connections_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: dict[str, Path]
) -> None:
    from labs.cli.__main__ import main

    for name in ("x.parquet", "x.csv"):
        out = tmp_path / name
        asked = ["capture", "table", str(made["others"]), "--out", str(out)]
        assert main([*asked, "--dry-run"]) == 0
        assert not out.exists()
        capsys.readouterr()
        assert main([*asked, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["rows"], said["connections"], said["headers_damaged"]) == (13, 1, 4)
        table = pd.read_csv(out) if name.endswith("csv") else pd.read_parquet(out)
        pd.testing.assert_frame_equal(
            table, capture.read(made["others"]), check_dtype=not name.endswith("csv")
        )
    assert main(["capture", "connections", str(LOSS), "--json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["connections"]
    assert only["server_bytes"] >= 204_800 + 244
    assert main(["capture", "table", str(LOSS), "--out", "x.txt"]) == 2
    assert "parquet" in capsys.readouterr().err


def test_connections_of_a_syn_with_timestamps_alone(tmp_path: Path) -> None:
    """Its twelve bytes of options look like those of every later segment."""
    stamp = b"\1\1\x08\x0a" + struct.pack(">II", 7, 0)
    path = made_flows.capture(
        tmp_path / "two.pcap",
        [
            (0, segment(1, 0, 5, 0, SYN, options=b"\2\4\5\xb4\3\3\7\4\2")),
            (1, segment(2, 0, 9, 0, SYN, options=stamp)),
            (2, segment(2, 1, 9, 10, SYN | ACK, options=b"\3\3\7")),
            (3, segment(2, 0, 10, 10, ACK, window=1000, options=stamp)),
        ],
    )
    one, other = capture.connections(path).to_dict("records")
    assert (one["client_mss"], one["client_wscale"], one["client_sack_permitted"]) == (1460, 7, 1)
    assert (other["client_mss"], other["client_wscale"]) == (-1, -1)
    assert (other["client_sack_permitted"], other["client_timestamps"]) == (0, 1)
    assert capture.read(path)["window_bytes"].iloc[-1] == 1000
