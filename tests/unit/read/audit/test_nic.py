"""Network cards and netfilter.

The recorded card is virtio_net with one queue, which lacks much. Outputs of other cards are given
in the format of ethtool 6.1 (its sources: netlink/coalesce.c, rings.c, channels.c, eee.c, and
ethtool.c dump_rss_indirection).
"""

from __future__ import annotations

import dataclasses

import pytest

from labs.read.audit.raw import Raw
from labs.read.audit.rules import NET
from tests.recorded_audits import ROOT, USER, items, recorded, with_files, with_output


def said(flag: str, out: str) -> Raw:
    return with_output(recorded(USER), ("ethtool", flag, "eth0"), out)


def test_recorded_card() -> None:
    found = items(recorded(USER))
    values = {name: found[f"nic.{name} eth0"].value for name in ("driver", "mtu", "queues", "lro")}
    assert values == {"driver": "virtio_net", "mtu": 1400, "queues": "1 of 1", "lro": "off (fixed)"}
    assert found["nic.link eth0"].value == "not reported"
    assert found["queue.qdisc eth0"].value == "pfifo_fast"


def test_rx_usecs_above_zero_deviates() -> None:
    found = items(said("-c", "Coalesce parameters for eth0:\nrx-usecs:\t3\ntx-usecs:\tn/a\n"))
    assert (found["nic.rx_usecs eth0"].value, found["nic.rx_usecs eth0"].deviates) == (3, True)
    assert found["nic.tx_usecs eth0"].unknown == "`ethtool -c eth0` does not report tx-usecs"


def test_adaptive_coalescing_deviates() -> None:
    found = items(said("-c", "Coalesce parameters for eth0:\nAdaptive RX: on  TX: off\n"))
    one = found["nic.adaptive eth0"]
    assert (one.value, one.deviates) == ("receive on, send off", True)


def test_queues_fewer_than_cpus_deviate() -> None:
    text = (
        "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nCombined:\t8\n"
        "Current hardware settings:\nRX:\t\tn/a\nCombined:\t1\n"
    )
    found = items(said("-l", text))["nic.queues eth0"]
    assert (found.value, found.deviates) == ("1 of 8", True)


def test_queues_of_a_card_that_separates_them() -> None:
    text = (
        "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\t4\nCombined:\tn/a\n"
        "Current hardware settings:\nRX:\t\t2\nCombined:\tn/a\n"
    )
    second = {f"{NET}/eth0/queues/rx-1/rps_cpus": "0"}
    found = items(with_files(said("-l", text), second))["nic.queues eth0"]
    assert (found.value, found.deviates) == ("2 of 4", False)


def test_queues_of_a_card_that_cannot_change_them() -> None:
    raw = recorded(USER)
    refused = (1, "", "netlink error: Operation not supported\n")
    fixed = dataclasses.replace(raw, outputs={**raw.outputs, ("ethtool", "-l", "eth0"): refused})
    found = items(fixed)["nic.queues eth0"]
    assert (found.value, found.deviates) == ("1 (fixed by the driver)", None)


def test_receive_packet_steering_of_two_queues() -> None:
    paths = {f"{NET}/eth0/queues/rx-{n}/rps_cpus": text for n, text in enumerate(("00", "03"))}
    assert items(with_files(recorded(USER), paths))["nic.rps eth0"].value == ("rx-0: 00; rx-1: 03")
    assert items(recorded(USER))["nic.rps eth0"].value == "none"


def test_qdisc_counts_equal_children() -> None:
    out = "qdisc mq 0: root \n" + "".join(
        f"qdisc fq_codel 0: parent :{n} limit 10240p\n" for n in "1234"
    )
    raw = with_output(recorded(USER), ("tc", "qdisc", "show", "dev", "eth0"), out)
    assert items(raw)["queue.qdisc eth0"].value == "mq, 4 x fq_codel"


def test_netfilter_of_the_recorded_machine() -> None:
    found = items(recorded(ROOT))
    assert str(found["netfilter.tables"].value).startswith("ip filter, ip nat")
    assert found["netfilter.rules"].value == 14 and found["netfilter.chains"].value == 10
    assert found["netfilter.built"].deviates is True


def test_netfilter_without_the_module_has_no_rules() -> None:
    """A kernel with modules in which nf_tables is not loaded: nft is not even started."""
    raw = dataclasses.replace(
        recorded(USER), outputs={}, config="CONFIG_NETFILTER=y\nCONFIG_NF_TABLES=m\n"
    )
    found = items(with_files(raw, {"/proc/modules": ""}))
    for name in ("tables", "chains", "rules", "modules"):
        assert found[f"netfilter.{name}"].deviates is False, name


@pytest.mark.parametrize(("count", "deviates"), [("0", False), ("17", True)])
def test_connections_tracked_deviate(count: str, deviates: bool) -> None:
    path = "/proc/sys/net/netfilter/nf_conntrack_count"
    found = items(with_files(recorded(USER), {path: f"{count}\n"}))["conntrack.tracked"]
    assert found.deviates is deviates and found.varies
