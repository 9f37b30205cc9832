"""The link: the tc lines of the article, the hosts, and the report on measurements."""

from __future__ import annotations

import json

import pytest

from labs.guest.testbed.link import (
    DIRECT,
    ROUTED,
    Link,
    Measured,
    addressing,
    checked,
    layout,
    linking,
    queue_packets,
    report_from_json,
    shaping,
    wiring,
)

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
def test_shaping_gives_the_commands_of_the_article(delay_ms: float, leaf: str) -> None:
    assert lines(Link(1000, delay_ms)) == ARTICLE.format(leaf=leaf)


def test_shaping_allows_for_a_late_timer_unless_the_burst_is_given() -> None:
    """10 ms at 100 Mbit/s are 125,000 bytes, on top of 20 KiB."""
    late = [" ".join(argv) for argv in shaping(Link(100, 200), "eth0", 10)]
    assert [line for line in late if "1:10 htb" in line] == [
        "tc class add dev eth0 parent 1:1 classid 1:10 htb rate 100mbit burst 145480 cburst 145480"
    ]
    fixed = Link(1000, 200, burst_bytes=20 << 10)
    assert shaping(fixed, "eth0", 10) == shaping(fixed, "eth0") == shaping(Link(1000, 200), "eth0")
    assert "htb rate 100mbit burst 30001\n" in lines(Link(100, 200, burst_bytes=30001))


def test_shaping_uses_every_field_of_the_link() -> None:
    link = Link(12.5, 40.25, loss_pct=0.1, jitter_ms=3, queue_packets=77, port=8080)
    text = lines(link)
    assert "netem delay 40.25ms 3ms loss 0.1% limit 77\n" in text
    assert "htb rate 12.5mbit burst" in text
    assert "match ip sport 8080 0xffff" in text


def test_shaping_of_no_rate_needs_no_class() -> None:
    assert shaping(Link(), "eth0") == ()
    assert lines(Link(delay_ms=5)) == "tc qdisc add dev eth0 root handle 10: netem delay 5ms\n"


def test_queue_packets_are_one_and_a_half_bdp() -> None:
    # 1000 Mbit/s x 0.2 s = 25e6 bytes = 16,513 frames of 1,514 bytes; half as much again.
    assert queue_packets(1000, 200) == 24769
    assert queue_packets(1, 1) == 1000


def test_linking_with_a_router_turns_all_offloads_off() -> None:
    link = Link(100, 40, shaped_at="router")
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


def test_wiring_gives_each_port_its_own_address() -> None:
    for plan in (DIRECT, ROUTED):
        made = wiring(plan, {host: f"labs-7-{host}" for host in plan.hosts})
        assert [argv[:3] for argv in made[: len(plan.hosts)]] == [("ip", "netns", "add")] * len(
            plan.hosts
        )
        assert len({port.address for port in plan.ports}) == len(plan.ports)
        assert len({port.mac for port in plan.ports}) == len(plan.ports)


@pytest.mark.parametrize(
    ("measured", "problems"),
    [
        (Measured(200.001, 1000.03), ()),
        (Measured(203.9, 951.0), ()),
        (Measured(204.1, 1000.0), ("RTT 204.10 ms, asked 200 within 4 ms",)),
        (Measured(200.0, 1051.0), ("rate 1051.0 Mbit/s, asked 1000 within 5 %",)),
        (
            Measured(0.3, 940.0),
            ("RTT 0.30 ms, asked 200 within 4 ms", "rate 940.0 Mbit/s, asked 1000 within 5 %"),
        ),
        (Measured(200.0, None), ("the rate could not be measured",)),
    ],
)
def test_checked_names_every_problem(measured: Measured, problems: tuple[str, ...]) -> None:
    report = checked(Link(1000, 200), measured)
    assert (report.problems, report.ok) == (problems, not problems)
    assert report.verdict == (f"not as asked: {'; '.join(problems)}" if problems else "as asked")
    assert report_from_json(json.loads(json.dumps(report.as_json()))) == report


def test_checked_judges_loss_by_the_packets_offered() -> None:
    """Of 10,000 packets with 1 % loss four standard deviations are 0.398 points."""
    link = Link(10, 40, loss_pct=1.0)
    assert checked(link, Measured(40.0, 10.0, 1.39), 10_000).ok
    assert checked(link, Measured(40.0, 10.0, 1.41), 10_000).problems == (
        "1.41 % lost, asked 1 within 0.4 points",
    )
    assert checked(link, Measured(40.0, 10.0, 1.41)).ok


@pytest.mark.parametrize(
    ("rtt_ms", "beside_ms", "problems"),
    [
        (205.4, 2.1, ()),
        (208.0, 2.1, ("RTT 208.00 ms, asked 200 within 4.2 ms above the path's own 2.10",)),
        (216.0, 9.0, ()),
        (200.0, 9.0, ()),
        (199.9, 9.0, ("RTT 199.90 ms, asked 200 within 9 ms above the path's own 9.00",)),
    ],
)
def test_checked_judges_the_delay_beyond_that_of_the_path(
    rtt_ms: float, beside_ms: float, problems: tuple[str, ...]
) -> None:
    measured = Measured(rtt_ms, 100.0, beside_ms=beside_ms)
    assert checked(Link(100, 200), measured).problems == problems
    assert measured.as_json()["beside_ms"] == beside_ms
    assert Measured(200.0, 100.0).as_json() == {"rtt_ms": 200, "rate_mbit": 100, "loss_pct": None}
