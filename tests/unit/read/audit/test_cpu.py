"""CPU, power, virtualisation, clock and memory.

The machine on which the audits were recorded leaves frequencies to its host. Files of cpufreq are
given here with the contents that Documentation/admin-guide/pm/cpufreq.rst and cpuidle.rst describe.
"""

from __future__ import annotations

import pytest

from labs.read.audit.raw import Raw
from labs.read.audit.rules import CPU
from tests.recorded_audits import GUEST, USER, items, recorded, with_files


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
