"""The link: the article's own tc lines, and the verdict over what was measured."""

from __future__ import annotations

import pytest

from labs.drive.testbed.layout import DIRECT, ROUTED, addressing, layout, linking, wiring
from labs.drive.testbed.link import Link, Measured, queue_packets, shaping, verdict

# Article 1's two scripts, device renamed (A1.2 without delay, A1.4 with 200 ms).
ARTICLE = """\
tc qdisc add dev eth0 root handle 1: htb default 100
tc class add dev eth0 parent 1: classid 1:1 htb rate 20000mbit burst 20k
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 1000mbit burst 20k
tc class add dev eth0 parent 1:1 classid 1:100 htb rate 20000mbit burst 20k
tc qdisc add dev eth0 parent 1:10 handle 10: {leaf}
tc qdisc add dev eth0 parent 1:100 handle 100: fq_codel
tc filter add dev eth0 protocol ip parent 1:0 prio 1 u32 match ip sport 80 0xffff flowid 1:10
"""


def lines(link: Link) -> str:
    return "".join(" ".join(argv) + "\n" for argv in shaping(link, "eth0"))


@pytest.mark.parametrize(("delay_ms", "leaf"), [(0, "fq_codel"), (200, "netem delay 200ms")])
def test_the_articles_commands_to_the_letter(delay_ms: float, leaf: str) -> None:
    assert lines(Link(1000, delay_ms)) == ARTICLE.format(leaf=leaf)


def test_a_shaper_that_may_be_late_may_send_what_it_missed() -> None:
    """10 ms at 100 Mbit/s are 125,000 bytes; the article's own rate keeps the article's words."""
    late = [" ".join(argv) for argv in shaping(Link(100, 200), "eth0", 10)]
    assert [line for line in late if "1:10 htb" in line] == [
        "tc class add dev eth0 parent 1:1 classid 1:10 htb rate 100mbit burst 145480 cburst 145480"
    ]
    assert shaping(Link(1000, 200), "eth0", 10) == shaping(Link(1000, 200), "eth0")


def test_every_part_of_a_link_reaches_its_line() -> None:
    link = Link(12.5, 40.25, loss_pct=0.1, jitter_ms=3, queue_packets=77, port=8080)
    text = lines(link)
    assert "netem delay 40.25ms 3ms loss 0.1% limit 77\n" in text
    assert "htb rate 12.5mbit burst" in text
    assert "match ip sport 8080 0xffff" in text


def test_an_unshaped_link_has_no_line_and_delay_alone_needs_no_class() -> None:
    assert shaping(Link(), "eth0") == ()
    assert lines(Link(delay_ms=5)) == "tc qdisc add dev eth0 root handle 10: netem delay 5ms\n"


def test_a_queue_holds_one_and_a_half_bdp() -> None:
    # 1000 Mbit/s x 0.2 s = 25e6 bytes = 16,513 frames of 1,514 bytes; half as much again.
    assert queue_packets(1000, 200) == 24769
    assert queue_packets(1, 1) == 1000


def test_a_router_stands_between_with_offloads_off_everywhere() -> None:
    link = Link(100, 40, at="router")
    assert layout(link) is ROUTED and layout(Link(100, 40)) is DIRECT
    made = linking(ROUTED, link)
    off = ("tso", "off", "gso", "off", "gro", "off")
    assert [argv for argvs in made.values() for argv in argvs if argv[0] == "ethtool"] == [
        ("ethtool", "-K", device, *off) for device in ("eth0", "eth0", "eth1", "eth0")
    ]
    assert {host for host, argvs in made.items() if any(argv[0] == "tc" for argv in argvs)} == {
        "router"
    }
    assert all("eth1" in argv for argv in made["router"] if argv[0] == "tc")
    assert ("ip", "route", "add", "default", "via", "10.77.1.254") in addressing(ROUTED, "server")


def test_every_port_is_laid_once_with_an_address_of_its_own() -> None:
    for plan in (DIRECT, ROUTED):
        made = wiring(plan, {host: f"labs-7-{host}" for host in plan.hosts})
        assert [argv[:3] for argv in made[: len(plan.hosts)]] == [("ip", "netns", "add")] * len(
            plan.hosts
        )
        assert len({port.address for port in plan.ports}) == len(plan.ports)
        assert len({port.mac for port in plan.ports}) == len(plan.ports)


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (Measured(200.001, 1000.03), "as asked"),
        (Measured(203.9, 951.0), "as asked"),
        (Measured(204.1, 1000.0), "RTT 204.10 ms, asked 200 within 4 ms"),
        (Measured(200.0, 1051.0), "rate 1051.0 Mbit/s, asked 1000 within 5 %"),
        (Measured(0.3, 940.0), "not as asked: RTT 0.30 ms"),
        (Measured(200.0, None), "could not be measured"),
    ],
)
def test_the_verdict_names_what_differs(measured: Measured, said: str) -> None:
    assert said in verdict(Link(1000, 200), measured)


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (Measured(205.4, 100.0, beside_ms=2.1), "as asked"),
        (
            Measured(208.0, 100.0, beside_ms=2.1),
            "RTT 208.00 ms, asked 200 within 4.2 ms above the path's own 2.10",
        ),
        (Measured(216.0, 100.0, beside_ms=9.0), "as asked"),
        (Measured(200.0, 100.0, beside_ms=9.0), "as asked"),
        (Measured(199.9, 100.0, beside_ms=9.0), "within 9 ms above the path's own 9.00"),
    ],
)
def test_the_delay_is_judged_above_what_the_path_takes_by_itself(
    measured: Measured, said: str
) -> None:
    found = verdict(Link(100, 200), measured)
    assert found.endswith(said) and (found == "as asked") == (said == "as asked")
    assert Measured(200.0, 100.0).as_json() == {"rtt_ms": 200, "rate_mbit": 100, "loss_pct": None}
    assert measured.as_json()["beside_ms"] == measured.beside_ms
