"""The items of an audit: CPU, card, sysctls, machine."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.errors import BadInput, Damaged
from labs.read.audit import sysctls
from labs.read.audit.differences import differences
from labs.read.audit.items import GROUPS
from labs.read.audit.machine import audit, table
from labs.read.audit.raw import SCHEMA, Raw, Unknown, number, open_raw
from labs.read.audit.rules import CPU, DEVICE_RULES, NET, PARSERS, RULES
from labs.read.audit.sysctls import REPORTS, default_of, defaults
from tests.recorded_audits import (
    GUEST,
    ROOT,
    USER,
    collected,
    items,
    recorded,
    with_files,
    with_output,
)


def each_cpu(raw: Raw, name: str, *texts: str) -> Raw:
    """A file of each CPU, one text per CPU."""
    paths = {f"{CPU}/cpu{number}/{name}": text for number, text in enumerate(texts)}
    return with_files(raw, paths)


def idle_states(raw: Raw, *states: tuple[str, str, str]) -> Raw:
    """The idle states of two CPUs: name, latency in µs, disable."""
    for place, what in enumerate(("name", "latency", "disable")):
        texts = {
            f"{CPU}/cpu{cpu}/cpuidle/state{number}/{what}": state[place]
            for cpu in (0, 1)
            for number, state in enumerate(states)
        }
        raw = with_files(raw, texts)
    return raw


@pytest.mark.parametrize(
    ("cpu_list", "value"),
    [("0-3,8", "5 of 10"), ("0-9", "10 of 10"), ("5\n", "1 of 10"), ("all", None)],
)
def test_cpus_online(cpu_list: str, value: str | None) -> None:
    files = {f"{CPU}/present": "0-9\n", f"{CPU}/online": cpu_list}
    found = items(with_files(recorded(USER), files))["cpu.online"]
    assert (found.value, found.deviates) == (value, value and value != "10 of 10")


def test_governor_of_cpus_that_differ_deviates() -> None:
    raw = each_cpu(recorded(USER), "cpufreq/scaling_governor", "performance", "powersave")
    found = items(raw)["cpu.governor"]
    assert (found.value, found.deviates) == ("cpu0: performance; cpu1: powersave", True)
    same = each_cpu(recorded(USER), "cpufreq/scaling_governor", "performance", "performance")
    assert items(same)["cpu.governor"].deviates is False


def test_governor_is_unknown_where_the_host_decides() -> None:
    found = items(recorded(USER))["cpu.governor"]
    assert found.value is None and found.deviates is None
    assert found.unknown.endswith("has no /sys/devices/system/cpu/cpuN/cpufreq/scaling_governor")


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("intel_pstate/no_turbo", "0", "on"),
        ("intel_pstate/no_turbo", "1", "off"),
        ("cpufreq/boost", "1", "on"),
        ("cpufreq/boost", "0", "off"),
    ],
)
def test_turbo_of_both_drivers(path: str, text: str, value: str) -> None:
    found = items(with_files(recorded(USER), {f"{CPU}/{path}": f"{text}\n"}))["cpu.turbo"]
    assert (found.value, found.deviates) == (value, value == "on")


def test_frequency_limits_deviate_if_the_frequency_may_change() -> None:
    raw = each_cpu(recorded(USER), "cpufreq/scaling_min_freq", "800000", "800000")
    raw = each_cpu(raw, "cpufreq/scaling_max_freq", "2100000", "2100000")
    found = items(raw)["cpu.frequency_limits"]
    assert (found.value, found.deviates) == ("800000 2100000", True)
    raw = each_cpu(raw, "cpufreq/scaling_min_freq", "2100000", "2100000")
    assert items(raw)["cpu.frequency_limits"].deviates is False


def test_idle_states_beyond_c1_deviate() -> None:
    states = (("POLL", "0", "0"), ("C1", "2", "0"), ("C6", "133", "0"))
    found = items(idle_states(recorded(USER), *states))["cpu.idle_states"]
    assert (found.value, found.deviates) == ("POLL 0 µs, C1 2 µs, C6 133 µs", True)


def test_idle_states_that_are_disabled_do_not_count() -> None:
    states = (("POLL", "0", "0"), ("C1", "2", "0"), ("C6", "133", "1"))
    found = items(idle_states(recorded(USER), *states))["cpu.idle_states"]
    assert (found.value, found.deviates) == ("POLL 0 µs, C1 2 µs, C6 133 µs (disabled)", False)


def test_smt_that_is_active_deviates() -> None:
    found = items(with_files(recorded(USER), {f"{CPU}/smt/active": "1\n"}))["cpu.smt"]
    assert (found.value, found.deviates) == ("on", True)
    assert items(recorded(USER))["cpu.smt"].value == "off"


@pytest.mark.parametrize(
    ("version", "words", "value"),
    [
        ("SMP PREEMPT_DYNAMIC", "", "PREEMPT_DYNAMIC"),
        ("SMP PREEMPT_DYNAMIC", "preempt=none", "PREEMPT_DYNAMIC preempt=none"),
        ("SMP PREEMPT_RT", "", "PREEMPT_RT"),
        ("SMP", "", "none or voluntary"),
    ],
)
def test_preemption_models(version: str, words: str, value: str) -> None:
    files = {"/proc/sys/kernel/version": f"#1 {version} today\n", "/proc/cmdline": words}
    assert items(with_files(recorded(USER), files))["kernel.preemption"].value == value


def test_quota_of_a_control_group() -> None:
    path = "/sys/fs/cgroup/a/cpu.max"
    found = items(with_files(recorded(USER), {path: "50000 100000\n"}))["cpu.quota"]
    assert (found.value, found.deviates) == ("50000 100000", True)
    found = items(with_files(recorded(USER), {path: "max 100000\n"}))["cpu.quota"]
    assert (found.value, found.deviates) == ("max 100000", False)


def test_stolen_time_of_two_machines() -> None:
    # 5 of 105 ticks, in the column that fs/proc/stat.c show_stat() names steal.
    raw = with_files(recorded(USER), {"/proc/stat": "cpu  50 0 0 50 0 0 0 5 0 0\n"})
    found = items(raw)["virtual.stolen"]
    assert (found.value, found.deviates) == (4.76, True)
    assert items(recorded(GUEST))["virtual.stolen"].unknown == "/proc/stat has counted no time yet"


def test_hypervisor_and_clock_of_the_recorded_machines() -> None:
    machine, guest = items(recorded(USER)), items(recorded(GUEST))
    assert machine["virtual.hypervisor"].value == guest["virtual.hypervisor"].value == "yes"
    assert machine["clock.source"].deviates is False
    assert (guest["clock.source"].value, guest["clock.source"].deviates) == (
        "time-travel-clock",
        True,
    )


def test_huge_pages_that_are_always_made_deviate() -> None:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    assert items(recorded(USER))["memory.huge_pages"].value == "madvise"
    found = items(with_files(recorded(USER), {path: "[always] madvise never\n"}))
    assert found["memory.huge_pages"].deviates is True


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


@pytest.mark.parametrize("name", [USER, ROOT, GUEST])
def test_audit_has_at_least_fifty_items(name: str) -> None:
    found = audit(recorded(name))
    assert len(found) >= 50
    assert len({one.key for one in found}) == len(found)
    for one in found:
        assert (one.value is None) == bool(one.unknown), one.key
        assert one.deviates is None or one.wanted, one.key


@pytest.mark.parametrize("name", [USER, ROOT, GUEST])
def test_audit_is_ordered_by_group_then_what_deviates(name: str) -> None:
    found = audit(recorded(name))
    places = [(GROUPS.index(one.group), one.rank) for one in found]
    assert places == sorted(places)


def test_table_says_how_each_item_is_read_and_what_is_known_about_it() -> None:
    by_rule = {item.name for item, reading in table().items() if not reading.read}
    assert by_rule == {*RULES, *DEVICE_RULES}
    for item, reading in table().items():
        assert item.group in GROUPS and reading.parse in PARSERS, item.name
        assert item.matters, item.name
        assert set(item.matters) <= {"latency", "throughput", "repeatability"}, item.name
        assert all((item.title, item.says, item.source, item.change)), item.name
        assert not reading.unwanted or reading.wanted, item.name
    titles = [item.title for item in table()]
    assert len(set(titles)) == len(titles)


def test_about_describes_every_sysctl_that_was_recorded() -> None:
    known = {name for values in defaults().values() for name in values}
    known |= {name for which in (USER, ROOT, GUEST) for name in recorded(which).sysctls()}
    assert known - sysctls.REPORTS - set(sysctls.about()) == set()
    for name, said in sysctls.about().items():
        assert set(said["matters"]) <= {"latency", "throughput", "repeatability"}, name
        assert said["says"].endswith("."), name


def test_audit_marks_what_only_root_can_read() -> None:
    as_user, as_root = items(recorded(USER)), items(recorded(ROOT))
    hidden = [key for key, one in as_user.items() if "only root" in one.unknown]
    assert hidden == ["netfilter.tables", "netfilter.chains", "netfilter.rules"]
    assert all(as_user[key].needs_root for key in hidden)
    assert all(as_root[key].value is not None for key in hidden)


def test_item_of_a_device_names_it_in_its_command() -> None:
    found = items(recorded(USER))["nic.rx_usecs eth0"]
    assert (found.value, found.unit, found.deviates) == (0, "µs", False)
    assert found.change == "ethtool -C eth0 rx-usecs 0"
    assert found.source.startswith("article 2")


RELEASE = "/proc/sys/kernel/osrelease"
MEMINFO = "/proc/meminfo"


def of_kernel(release: str) -> Raw:
    """The recorded machine with another release, and no namespace to measure in."""
    raw = with_files(recorded(USER), {RELEASE: f"{release}\n"})
    return dataclasses.replace(raw, fresh={}, fresh_error="Operation not permitted")


def test_default_of_a_sysctl_of_the_namespace_is_measured() -> None:
    raw = recorded(USER)
    found = default_of(raw, "net.ipv4.tcp_sack")
    assert (found.value, found.by) == ("1", "a new network namespace of this kernel")


def test_default_of_an_inherited_sysctl_is_not_taken_from_the_namespace() -> None:
    """tcp_sk_init copies tcp_rmem, so a new namespace would repeat a value that was changed."""
    changed = "4096 131072 1000000"
    raw = dataclasses.replace(recorded(USER), fresh={"net.ipv4.tcp_rmem": changed})
    assert default_of(raw, "net.ipv4.tcp_rmem").value == "4096 131072 33554432"
    found = items(with_files(raw, {"/proc/sys/net/ipv4/tcp_rmem": changed}))["net.ipv4.tcp_rmem"]
    assert (found.deviates, found.change) == (
        True,
        "sysctl -w net.ipv4.tcp_rmem='4096 131072 33554432'",
    )


def test_default_of_a_shared_sysctl_is_not_taken_from_the_namespace() -> None:
    raw = recorded(USER)
    assert "net.core.rmem_max" in raw.fresh and "net.core.rmem_max" in raw.fresh_read_only
    assert "boots of" in default_of(raw, "net.core.rmem_max").by


# net/ipv4/tcp.c: tcp_init has 6 MiB until 6.15 and 32 MiB since 6.16; net/core/sock.c: 4 MiB for
# rmem_max since 6.18. 212992 was measured on 5.10, 6.1 and 6.12, 4194304 on 7.2.
@pytest.mark.parametrize(
    ("release", "rmem", "rmem_max"),
    [
        ("5.10.262", "6291456", "212992"),
        ("6.1.192", "6291456", "212992"),
        ("6.15.1", "6291456", "212992"),
        ("6.16.0", "33554432", "212992"),
        ("6.17.9", "33554432", "212992"),
        ("6.18.0", "33554432", "4194304"),
        ("7.2.13", "33554432", "4194304"),
    ],
)
def test_defaults_that_changed(release: str, rmem: str, rmem_max: str) -> None:
    raw = of_kernel(release)
    assert default_of(raw, "net.ipv4.tcp_rmem").value == f"4096 131072 {rmem}"
    assert default_of(raw, "net.core.rmem_max").value == rmem_max


def test_default_between_two_kernels_that_differ_is_unknown() -> None:
    with pytest.raises(Unknown, match=r"not the same on Linux 6\.12 and 7\.2"):
        default_of(of_kernel("6.18.1"), "net.core.skb_defer_max")
    assert default_of(of_kernel("6.18.1"), "net.core.netdev_budget").value == "300"
    assert default_of(of_kernel("6.12.107"), "net.core.skb_defer_max").value == "64"


@pytest.mark.parametrize("release", ["7.3.0", "4.19.0"])
def test_default_of_a_kernel_beyond_those_measured_is_unknown(release: str) -> None:
    with pytest.raises(Unknown, match="not between two kernels that were booted"):
        default_of(of_kernel(release), "net.core.netdev_budget")


def test_default_of_the_connection_table_needs_a_namespace() -> None:
    with pytest.raises(Unknown, match="Operation not permitted"):
        default_of(of_kernel("6.1.0"), "net.ipv4.tcp_max_tw_buckets")


def test_default_with_little_memory_is_unknown() -> None:
    raw = with_files(recorded(USER), {MEMINFO: "MemTotal:  2048000 kB\n"})
    with pytest.raises(Unknown, match="with this little memory"):
        default_of(raw, "net.ipv4.tcp_rmem")
    with pytest.raises(Unknown, match="has no line MemTotal"):
        default_of(with_files(recorded(USER), {MEMINFO: ""}), "net.ipv4.tcp_wmem")


def test_default_of_tcp_mem_follows_from_memory() -> None:
    raw = recorded(USER)
    assert items(raw).get("net.ipv4.tcp_mem") is None
    found = items(with_files(raw, {"/proc/sys/net/ipv4/tcp_mem": "100 200 300\n"}))
    assert found["net.ipv4.tcp_mem"].deviates is True
    assert found["net.ipv4.tcp_mem"].wanted.startswith("about ")


def test_default_of_the_kernels_build() -> None:
    raw = dataclasses.replace(
        recorded(USER), config='CONFIG_DEFAULT_TCP_CONG="cubic"\nCONFIG_DEFAULT_NET_SCH="fq"\n'
    )
    found = items(raw)
    assert (found["net.ipv4.tcp_congestion_control"].value, raw.option("DEFAULT_TCP_CONG")) == (
        "bbr",
        "cubic",
    )
    assert found["net.ipv4.tcp_congestion_control"].deviates is True
    assert found["net.core.default_qdisc"].wanted == "fq"


def test_items_list_a_sysctl_that_differs() -> None:
    assert "net.ipv4.tcp_fin_timeout" not in items(recorded(USER))
    found = items(with_files(recorded(USER), {"/proc/sys/net/ipv4/tcp_fin_timeout": "15\n"}))
    one = found["net.ipv4.tcp_fin_timeout"]
    assert (one.value, one.wanted, one.deviates) == ("15", "60", True)
    assert "differ 1" in str(found["sysctl.compared"].value)


def test_items_count_every_sysctl_once() -> None:
    raw = recorded(ROOT)
    assert items(raw)["sysctl.compared"].value == (
        "compared 124, differ 0, without a known default 2, not readable 0"
    )
    assert len(raw.sysctls().keys() - REPORTS) == 124 + 2


def test_items_of_a_kernel_just_booted_do_not_deviate() -> None:
    found = items(recorded(GUEST))
    assert [key for key, one in found.items() if one.deviates and key.startswith("net.")] == []


def test_defaults_have_no_value_of_a_machine() -> None:
    assert sorted(defaults()) == [(5, 10), (6, 1), (6, 12), (7, 2)]
    for values in defaults().values():
        assert not values.keys() & {"net.ipv4.tcp_mem", "net.ipv4.tcp_fastopen_key"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below),
    max_leaves=8,
)


def test_text_says_why_a_file_is_unknown() -> None:
    raw = recorded(USER)
    assert raw.text("/proc/sys/kernel/numa_balancing") == "0"
    with pytest.raises(Unknown, match="this machine has no /sys/hypervisor/type"):
        raw.text("/sys/hypervisor/type")
    with pytest.raises(Unknown, match="only root can read /proc/net/ip_tables_names"):
        raw.text("/proc/net/ip_tables_names")


def test_number_refuses_other_text() -> None:
    assert number("-7") == -7
    with pytest.raises(Unknown, match="'fast' is no number"):
        number("fast")


def test_common_names_the_cpus_that_differ() -> None:
    pattern = "/cpu/cpu[0-9]*/governor"
    same = with_files(recorded(USER), {f"/cpu/cpu{n}/governor": "x" for n in range(12)})
    assert same.common(pattern) == "x"
    differ = with_files(recorded(USER), {"/cpu/cpu10/governor": "b", "/cpu/cpu2/governor": "a"})
    assert differ.common(pattern) == "cpu2: a; cpu10: b"


def test_said_gives_the_reason_of_the_tool() -> None:
    raw = recorded(USER)
    with pytest.raises(Unknown, match="netlink error: Operation not supported"):
        raw.output("ethtool", "-a", "eth0")
    with pytest.raises(Unknown, match="ethtool is not installed"):
        recorded_without_ethtool().output("ethtool", "-i", "eth0")
    with pytest.raises(Unknown, match="was not started"):
        raw.output("ethtool", "-i", "eth7")


def recorded_without_ethtool() -> Any:
    collection = collected(USER)
    for command in collection["commands"]:
        if command["argv"][0] == "ethtool":
            command |= {"exit": 127, "out": "", "err": "not installed"}
    return open_raw(collection, "it")


def test_option_of_a_kernel_without_its_build_options() -> None:
    assert recorded(USER).option("HZ") == "250"
    assert recorded(USER).option("NO_HZ_FULL") == "n"
    assert recorded(USER).option("DEFAULT_TCP_CONG") == "bbr"
    with pytest.raises(Unknown, match=r"neither /proc/config\.gz nor /boot"):
        recorded(GUEST).option("HZ")


@pytest.mark.parametrize(
    ("release", "series"), [("6.1.0-49-cloud-amd64", (6, 1)), ("7.2.13", (7, 2)), ("5.10", (5, 10))]
)
def test_series_of_a_release(release: str, series: tuple[int, int]) -> None:
    assert with_files(recorded(USER), {RELEASE: f"{release}\n"}).series == series
    with pytest.raises(Unknown, match="does not begin with two numbers"):
        _ = with_files(recorded(USER), {RELEASE: "next\n"}).series


def test_open_raw_refuses_another_schema_and_another_object() -> None:
    with pytest.raises(BadInput, match=f"Allowed: {SCHEMA}"):
        open_raw({**collected(USER), "schema": SCHEMA + 1}, "it")
    for wrong in ("text", None, 3):
        with pytest.raises(Damaged, match="it is not an object"):
            open_raw(wrong, "it")


@given(name=st.sampled_from(sorted(collected(ROOT))), value=JSON)
def test_open_raw_of_anything(name: str, value: object) -> None:
    try:
        raw = open_raw({**collected(ROOT), name: json.loads(json.dumps(value))}, "it")
    except (BadInput, Damaged) as error:
        assert "it" in str(error)
    else:
        assert all(item.name for item in audit(raw))


@given(data=st.data())
def test_audit_of_other_texts(data: st.DataObject) -> None:
    """Files and outputs with any content: items are unknown, and nothing is raised."""
    raw = recorded(ROOT)
    texts = st.sampled_from(["", "0\n", "-1", "x", "1 2\n3:\n", "a:b", "qdisc \n", "rules \n"])
    text = texts | st.text(max_size=30)
    files = {path: data.draw(text) for path in data.draw(st.sets(st.sampled_from([*raw.files])))}
    output = data.draw(st.sampled_from([*raw.outputs]))
    changed = with_output(with_files(raw, files), output, data.draw(text))
    assert len(audit(changed)) >= 50
    differences(raw, changed)


@pytest.mark.parametrize(
    ("name", "value"), [("devices", "eth0"), ("cpus", "2"), ("root", None), ("page_bytes", 1.5)]
)
def test_open_raw_refuses_facts_of_another_type(name: str, value: object) -> None:
    collection = collected(USER)
    with pytest.raises(Damaged, match=name):
        open_raw({**collection, "facts": {**collection["facts"], name: value}}, "it")
