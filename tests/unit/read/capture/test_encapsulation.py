"""TCP inside tunnels and unusual link layers is read as it is outside, and told apart from it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import GRE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from labs.cli.__main__ import main
from labs.read import capture
from tests import tshark
from tests.captures import ETHER, dialogue, over_ipv4, pcap, tunnels
from tests.shells import KINDS, MACS, NAMES, UNREAD, outer, udp

SEGMENTS = len(dialogue())
UNKNOWN_TO_TSHARK = ("vxlan-linux", "mpls-ethernet")
"""The port of Linux and a pseudowire need a setting there."""


def made(folder: Path, kind: str) -> Path:
    frames, link = KINDS[kind]
    return pcap(folder / f"{kind}.pcap", frames, link)


@pytest.mark.parametrize("kind", KINDS)
def test_find_tcp_reads_what_is_inside(kind: str, tmp_path: Path) -> None:
    """The same numbers, payloads and addresses as without the shell; tshark says the same."""
    path = made(tmp_path, kind)
    table = capture.read(path)
    plain = capture.read(pcap(tmp_path / "plain.pcap", over_ipv4(ETHER, dialogue())))
    columns = ["seq", "ack", "flags", "window", "payload_bytes", "direction", "seq_rel", "tsval"]
    assert table[columns].equals(plain[columns])
    assert capture.connections(path)["client"].iloc[0] in ("10.0.0.2", "fd00::2")
    if tshark.available() and kind not in UNKNOWN_TO_TSHARK:
        seqs = [int(line[0]) for line in tshark.printed(path, ("tcp.seq_raw",), "tcp")]
        assert seqs == table["seq"].tolist()


def test_find_tcp_tells_tunnels_apart(tmp_path: Path) -> None:
    """The same addresses and ports outside, in two VXLANs and in GRE are four connections."""
    frames = over_ipv4(ETHER, dialogue())
    seven, eight = (
        [udp(4789, b"\x08\0\0\0" + struct.pack(">I", vni << 8) + one) for one in frames]
        for vni in (7, 8)
    )
    path = pcap(tmp_path / "all.pcap", [*frames, *seven, *eight, *tunnels()["gre"]])
    found = capture.connections(path)
    assert len(found) == 4 and (found["client"] == "10.0.0.2").all()
    assert (found["client_segments"] + found["server_segments"] == SEGMENTS).all()
    assert capture.remarks(path).counts == {"tunnelled": 3 * SEGMENTS}


def test_find_tcp_counts_no_tunnel_of_something_else(tmp_path: Path) -> None:
    ends = IP(src="10.0.0.1", dst="10.0.0.2")
    over = ends / UDP(sport=1, dport=4789)
    frames = [
        ETHER / ends / GRE(proto=0x0800) / ends / ICMP(),
        ETHER / ends / GRE(proto=0x0800) / ends / UDP(sport=5, dport=53) / Raw(bytes(60)),
        ETHER / over / VXLAN(vni=7) / ETHER / ends / UDP(sport=5, dport=53) / Raw(bytes(60)),
    ]
    found = capture.remarks(pcap(tmp_path / "other.pcap", [bytes(frame) for frame in frames]))
    assert found.counts == {"not_tcp": len(frames)} and found.segments == 0


def test_find_tcp_names_what_is_encrypted(tmp_path: Path) -> None:
    frames = [outer(50, bytes(60)), udp(4500, bytes(60)), udp(51820, bytes(60))]
    frames.append(MACS + b"\x88\xe5" + bytes(60))
    path = pcap(tmp_path / "hidden.pcap", frames)
    assert capture.remarks(path).counts == {"encrypted": len(frames)}


@pytest.mark.parametrize("kind", UNREAD)
def test_find_tcp_names_layers_that_are_not_read(kind: str, tmp_path: Path) -> None:
    frames, link = UNREAD[kind]
    found = capture.remarks(pcap(tmp_path / "unread.pcap", frames, link))
    assert found.counts == {"unread_layer" if link == 1 else "other_link_type": SEGMENTS}
    assert f"such as {NAMES[kind]}" in found.lines[0] and found.segments == 0


@pytest.mark.parametrize("kind", [*KINDS, *UNREAD])
def test_find_tcp_cut_anywhere(kind: str, tmp_path: Path) -> None:
    """Every packet has a row or is counted."""
    (whole, *_), link = (KINDS | UNREAD)[kind]
    frames = [whole[:length] for length in range(1, len(whole))]
    found = capture.remarks(pcap(tmp_path / "cut.pcap", frames, link))
    counted = sum(count for name, count in found.counts.items() if name != "tunnelled")
    assert found.segments + counted == len(frames)


def test_commands_explain_what_is_in_a_tunnel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path, "gre")
    for verb in (("capture", "stalls"), ("explain",), ("capture", "connections")):
        assert main([*verb, str(path)]) == 0
        said = capsys.readouterr()
        assert f"{SEGMENTS} packets whose TCP is inside a tunnel" in said.err
        assert "10.0.0.2" in said.out or "no stall" in said.out
    out = tmp_path / "x.html"
    assert main(["capture", "ladder", str(path), "--out", str(out)]) == 0 and out.exists()
