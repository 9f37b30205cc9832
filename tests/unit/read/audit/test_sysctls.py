"""The defaults of sysctls: where each comes from, and what differs."""

from __future__ import annotations

import dataclasses

import pytest

from labs.read.audit.raw import Raw, Unknown
from labs.read.audit.sysctls import REPORTS, default_of, defaults
from tests.recorded_audits import GUEST, ROOT, USER, items, recorded, with_files

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
