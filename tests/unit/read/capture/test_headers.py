"""TCP inside a tunnel is not read, and every command says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import GRE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from labs import capture
from labs.cli.__main__ import main
from labs.errors import LabError
from tests import tshark
from tests.captures import ETHER, dialogue, over_ipv4, pcap, tunnels

KINDS = tunnels()
SEGMENTS = len(dialogue())


def made(folder: Path, *kinds: str) -> Path:
    return pcap(folder / "tunnel.pcap", [frame for kind in kinds for frame in KINDS[kind]])


@pytest.mark.parametrize("kind", KINDS)
def test_find_tcp_counts_every_packet_with_tcp_in_a_tunnel(kind: str, tmp_path: Path) -> None:
    path = made(tmp_path, kind)
    found = capture.remarks(path)
    assert (found.packets, found.segments) == (SEGMENTS, 0)
    assert found.counts == {"tunnelled": SEGMENTS}
    if tshark.available() and kind != "vxlan-linux":  # Wireshark knows the port of IANA alone
        assert len(tshark.printed(path, ("frame.number",), "tcp")) == SEGMENTS


def test_find_tcp_counts_no_tunnel_of_something_else(tmp_path: Path) -> None:
    ends = IP(src="10.0.0.1", dst="10.0.0.2")
    udp = ends / UDP(sport=1, dport=4789)
    frames = [
        ETHER / ends / GRE(proto=0x0800) / ends / ICMP(),
        ETHER / ends / GRE(proto=0x0800) / ends / UDP(sport=5, dport=53) / Raw(bytes(60)),
        ETHER / ends / GRE(proto=0x880B) / Raw(bytes(40)),
        ETHER / IP(proto=4) / IP(proto=6, frag=3) / Raw(bytes(40)),
        ETHER / udp / VXLAN(vni=7) / ETHER / ends / UDP(sport=5, dport=53) / Raw(bytes(60)),
        ETHER / udp / Raw(b"x"),
    ]
    found = capture.remarks(pcap(tmp_path / "other.pcap", [bytes(frame) for frame in frames]))
    assert found.counts == {"not_tcp": len(frames)}


@pytest.mark.parametrize("kind", KINDS)
def test_find_tcp_of_a_tunnel_cut_anywhere(kind: str, tmp_path: Path) -> None:
    """What is inside has its protocol captured, or is not known to be TCP."""
    whole = KINDS[kind][0]
    frames = [whole[:length] for length in range(14, len(whole))]
    found = capture.remarks(pcap(tmp_path / "cut.pcap", frames))
    assert found.segments == 0 and sum(found.counts.values()) == len(frames)
    assert found.counts["tunnelled"] >= 20


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["capture", *map(str, words)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err


def test_capture_ladder_and_graph_refuse_tcp_in_a_tunnel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = made(tmp_path, "gre", "vxlan"), tmp_path / "x.html"
    for verb in ("ladder", "graph"):
        for more in ((), ("--connection", 3), ("--dry-run",)):
            said = refused(capsys, verb, path, "--out", out, *more)
            assert "the capture has no TCP outside a tunnel; 26 packets" in said
            assert "Capture on the tunnel's own interface" in said and "editcap -C" in said
    assert not out.exists()


@pytest.mark.parametrize("verb", ["connections", "stalls"])
def test_capture_connections_and_stalls_remark_a_tunnel(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path, "ip-in-ip")
    assert main(["capture", verb, str(path)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{path}: no TCP outside a tunnel\n"
    assert said.err.startswith(f"labs: {SEGMENTS} packets whose TCP is inside a tunnel")


def test_capture_ladder_and_graph_remark_a_tunnel_beside_other_tcp(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = pcap(tmp_path / "both.pcap", [*over_ipv4(ETHER, dialogue()), *KINDS["geneve"]])
    for verb in ("ladder", "graph"):
        assert main(["capture", verb, str(path), "--out", str(tmp_path / f"{verb}.html")]) == 0
        assert f"{SEGMENTS} packets whose TCP is inside a tunnel" in capsys.readouterr().err


@pytest.mark.skipif(not tshark.available(), reason="editcap comes with tshark")
@pytest.mark.parametrize(
    ("kind", "cut"), [("ip-in-ip", "14:20"), ("gre", "14:24"), ("vxlan", "0:50")]
)
def test_tunnelled_remark_advises_what_makes_it_readable(
    kind: str, cut: str, tmp_path: Path
) -> None:
    """editcap -C takes bytes out: an IPv4 header has 20, GRE 4, UDP 8, VXLAN 8, Ethernet 14."""
    path, bare = made(tmp_path, kind), tmp_path / "bare.pcap"
    done = subprocess.run(
        ["editcap", "-C", cut, "-L", "-F", "pcap", str(path), str(bare)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        raise LabError(done.stderr)
    assert len(capture.read(bare)) == SEGMENTS and capture.remarks(bare).counts == {}
