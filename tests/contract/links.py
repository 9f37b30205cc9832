"""The hosts' addresses, and the link between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labs.errors import BadInput
from labs.guest.bench import MACHINES, train_of_machines
from labs.guest.testbed.contract import Testbed
from labs.guest.testbed.link import Link
from tests.contract.setting import NotApplicable, Setting, await_text, equal, path, refused

PROBE = Path(__file__).parents[2] / "labs" / "guest" / "programs" / "probe.py"
PORT, OTHER_PORT = 8080, 8081
PACKETS = 60


def measured(
    testbed: Testbed, port: int, packets: int = PACKETS, beside: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The result of the probe for the path from the server's port."""
    server, client = testbed.server, testbed.client
    train = ("--port", str(port), "--packets", str(packets), *beside)
    serve = server.program(PROBE, ("serve", "--listen", server.address, *train))
    await_text(server, "/proc/net/tcp", f":{port:04X} 00000000:0000 0A".encode())
    out = path(client, f"probe-{port}.json")
    measure = client.program(
        PROBE,
        ("measure", "--to", server.address, *train, "--out", out),
        stdout=path(client, "probe.txt"),
    )
    said = measure.wait(60), client.read(path(client, "probe.txt"))
    equal(said, (0, b""))
    equal(serve.wait(60), 0)
    found: dict[str, Any] = json.loads(client.read(out))
    return found


def check_hosts_have_names(testbed: Testbed) -> None:
    names = {"server": testbed.server, "client": testbed.client}
    if testbed.router:
        names["router"] = testbed.router
    equal(dict(testbed.hosts()), names)
    equal([host.name for host in names.values()], list(names))


def check_hosts_have_their_addresses_and_devices(testbed: Testbed) -> None:
    for host in testbed.hosts().values():
        shown = host.run(("ip", "-o", "-4", "address", "show", "dev", host.device)).text
        assert f" {host.address}/" in shown, shown


def check_hosts_reach_each_other(testbed: Testbed) -> None:
    equal(measured(testbed, PORT)["arrived"], PACKETS)
    for host in (testbed.server, testbed.client):
        listening = f":{PORT:04X} 00000000:0000 0A".encode()
        assert listening not in host.read("/proc/net/tcp"), "something still listens"


def check_link_unshaped_has_no_shaper(testbed: Testbed) -> None:
    for host in testbed.hosts().values():
        shown = host.run(("tc", "qdisc", "show", "dev", host.device)).text
        assert "htb" not in shown and "netem" not in shown, shown


def check_link_has_its_rate(setting: Setting) -> None:
    setting.needs("htb", "fq_codel")
    with setting.testbed(Link(rate_mbit=10, port=PORT)) as testbed:
        server = testbed.server
        shown = server.run(("tc", "class", "show", "dev", server.device)).text
        assert "class htb 1:10" in shown and "rate 10Mbit" in shown, shown
        shown = server.run(("tc", "filter", "show", "dev", server.device)).text
        assert f"match {PORT:04x}0000/ffff0000" in shown, shown
        shaped, other = measured(testbed, PORT), measured(testbed, OTHER_PORT)
        equal((shaped["arrived"], other["arrived"]), (PACKETS, PACKETS))
        if setting.virtual_time:  # elsewhere the machine has a say
            assert 9.5 < shaped["rate_mbit"] < 10.5, shaped
            assert not other["rate_mbit"] or other["rate_mbit"] > 100, other
    with setting.testbed() as testbed:
        check_link_unshaped_has_no_shaper(testbed)


def check_link_delays_only_its_port(setting: Setting) -> None:
    setting.needs("htb", "fq_codel", "netem")
    with setting.testbed(Link(rate_mbit=100, delay_ms=150, port=PORT)) as testbed:
        shaped, other = measured(testbed, PORT), measured(testbed, OTHER_PORT)
        assert shaped["rtt_ms"] >= 150, shaped
        assert other["rtt_ms"] < 150, other
        if setting.virtual_time:
            assert shaped["rtt_ms"] < 151, shaped
            assert other["rtt_ms"] < 1, other
            if testbed.kind in MACHINES:  # their shaper has bursts that a short train fits in
                shaped = measured(
                    testbed, PORT, train_of_machines(100), ("--beside", str(OTHER_PORT))
                )
            assert 95 < shaped["rate_mbit"] < 105, shaped


def check_router_shapes_the_link(setting: Setting) -> None:
    setting.needs("htb", "fq_codel", "ethtool")
    link = Link(rate_mbit=10, shaped_at="router", port=PORT)
    if not setting.routers:
        with refused(BadInput, "router", "server"), setting.testbed(link):
            pass
        return
    with setting.testbed(link) as testbed:
        router = testbed.router
        assert router is not None
        shown = router.run(("tc", "class", "show", "dev", router.device)).text
        assert "class htb 1:10" in shown and "rate 10Mbit" in shown, shown
        shown = testbed.server.run(("tc", "qdisc", "show", "dev", testbed.server.device)).text
        assert "htb" not in shown, shown
        for host in testbed.hosts().values():
            shown = host.run(("ethtool", "-k", host.device)).text
            assert "tcp-segmentation-offload: off" in shown, shown
        equal(measured(testbed, PORT)["arrived"], PACKETS)


def check_router_delays_the_link(setting: Setting) -> None:
    setting.needs("htb", "fq_codel", "netem", "ethtool")
    if not setting.routers:
        raise NotApplicable("there are two hosts and no router")
    link = Link(rate_mbit=10, delay_ms=50, shaped_at="router", port=PORT)
    with setting.testbed(link) as testbed:
        found = measured(testbed, PORT)
        assert found["rtt_ms"] >= 50 and (found["rtt_ms"] < 51 or not setting.virtual_time), found
