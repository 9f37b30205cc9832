"""CPU and power: what decides how fast the processor is, and whether it stays so."""

from __future__ import annotations

import re

from labs.read.audit.items import Finding, Rule, wants
from labs.read.audit.raw import Raw, Unknown, natural, whole

CPU = "/sys/devices/system/cpu"
EACH_CPU = f"{CPU}/cpu[0-9]*"
MOST_PRESSURE_PCT = 5.0
KHZ_PER_MHZ = 1000
SHARE = re.compile(r"some avg10=(\d+\.\d+)", re.ASCII)
NONE = "none"
ON, OFF = "on", "off"


def processor(raw: Raw, field: str) -> str:
    """A line about the first processor of /proc/cpuinfo."""
    for line in raw.text("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    raise Unknown(f"/proc/cpuinfo has no line '{field}'")


def cpus(text: str) -> set[int]:
    """The numbers in a list such as 0-3,8."""
    numbers: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        low, high = whole(first, "a list of CPUs"), whole(last or first, "a list of CPUs")
        numbers |= set(range(low, min(high, low + 4096) + 1))
    return numbers


def online(raw: Raw) -> Finding:
    there, present = cpus(raw.text(f"{CPU}/online")), cpus(raw.text(f"{CPU}/present"))
    return Finding(f"{len(there)} of {len(present)}", len(there) < len(present), "all")


def topology(raw: Raw) -> str:
    packages = set(raw.by_name(f"{EACH_CPU}/topology/physical_package_id", -3).values())
    siblings = raw.by_name(f"{EACH_CPU}/topology/thread_siblings_list", -3)
    cores = len(set(siblings.values()))
    return f"packages {len(packages)}, cores {cores}, threads {len(siblings)}"


def smt(raw: Raw) -> Finding:
    active = raw.text(f"{CPU}/smt/active")
    return wants(ON if active == "1" else OFF, OFF)


def frequency_limits(raw: Raw) -> Finding:
    low = raw.common(f"{EACH_CPU}/cpufreq/scaling_min_freq", -3)
    high = raw.common(f"{EACH_CPU}/cpufreq/scaling_max_freq", -3)
    if not (low.isdigit() and high.isdigit()):
        return Finding(f"lowest {low}; highest {high} (kHz)", True, "lowest = highest")
    low_mhz, high_mhz = int(low) // KHZ_PER_MHZ, int(high) // KHZ_PER_MHZ
    return Finding(f"{low_mhz} to {high_mhz} MHz", low_mhz != high_mhz, "lowest = highest")


def frequency_now(raw: Raw) -> str:
    try:
        frequencies = raw.by_name(f"{EACH_CPU}/cpufreq/scaling_cur_freq", -3)
    except Unknown:
        return f"{float_of(processor(raw, 'cpu MHz'), 'cpu MHz'):.0f}"
    speeds = [whole(text, "scaling_cur_freq") // KHZ_PER_MHZ for text in frequencies.values()]
    low, high = min(speeds), max(speeds)
    return f"{low}" if low == high else f"{low} to {high}"


def switch(raw: Raw, path: str) -> str:
    """A file that holds 1 for on and 0 for off; another number is shown as it is."""
    state = raw.text(path)
    return {"1": ON, "0": OFF}.get(state, state)


def float_of(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Unknown(f"{what} is {text[:40]!r}, which is no number") from None


def turbo(raw: Raw) -> Finding:
    for path, off in ((f"{CPU}/intel_pstate/no_turbo", "1"), (f"{CPU}/cpufreq/boost", "0")):
        if path in raw.files:
            return wants(OFF if raw.text(path) == off else ON, OFF)
    raise Unknown("this machine shows neither intel_pstate/no_turbo nor cpufreq/boost")


def idle_states(raw: Raw) -> list[tuple[str, int, bool]]:
    """The idle states of the first CPU, shallow first: name, wake-up time in µs, disabled."""
    states = []
    names = raw.each.get(f"{EACH_CPU}/cpuidle/state[0-9]*/name", {})
    latency = _of_first(raw, "latency")
    disabled = _of_first(raw, "disable")
    for state, name in sorted(_of_first(raw, "name").items(), key=lambda entry: natural(entry[0])):
        wake_us = whole(latency.get(state, ""), f"latency of {state}")
        states.append((name, wake_us, disabled.get(state) == "1"))
    if not names or not states:
        raise Unknown(f"this machine has no {CPU}/cpu0/cpuidle")
    return states


def _of_first(raw: Raw, what: str) -> dict[str, str]:
    """A file of each idle state of the first CPU, by the name of the state."""
    texts = raw.each.get(f"{EACH_CPU}/cpuidle/state[0-9]*/{what}", {})
    paths = {path: text for text, some in texts.items() for path in some}
    first = min((path.split("/")[-4] for path in paths), key=natural, default="")
    return {
        path.split("/")[-2]: text for path, text in paths.items() if path.split("/")[-4] == first
    }


def describe_idle_states(raw: Raw) -> str:
    return ", ".join(
        f"{name} {wake_us} µs{' (disabled)' if disabled else ''}"
        for name, wake_us, disabled in idle_states(raw)
    )


def deepest_idle(raw: Raw) -> Finding:
    """A state deeper than C1, the first one after polling, takes the wake-up time that the article
    avoids."""
    states = idle_states(raw)
    usable = [
        (place, wake_us) for place, (_, wake_us, off) in enumerate(states) if not off or not place
    ]
    place, wake_us = usable[-1]
    return Finding(wake_us, place > 1, "at most C1")


def boot_idle(raw: Raw) -> str:
    names = ("intel_idle.max_cstate", "processor.max_cstate", "idle", "cpuidle.off")
    return " ".join(filter(None, map(raw.boot_word, names))) or "not given"


def wakeup_limit(raw: Raw) -> str:
    limit = raw.common(f"{EACH_CPU}/power/pm_qos_resume_latency_us", -3)
    return "no limit" if limit == "0" else "no idle state" if limit == "n/a" else f"{limit} µs"


def isolated(raw: Raw) -> str:
    return raw.text(f"{CPU}/isolated") or NONE


def nohz_full(raw: Raw) -> str:
    if f"{CPU}/nohz_full" not in raw.files and raw.option("NO_HZ_FULL") == "n":
        return "none (not built into this kernel)"
    cpu_list = raw.text(f"{CPU}/nohz_full")
    return NONE if cpu_list in ("", "(null)") else cpu_list


def allowed(raw: Raw) -> Finding:
    text = raw.text("/proc/self/status").partition(":")[2].strip()
    return Finding(text, cpus(text) != cpus(raw.text(f"{CPU}/online")), "all CPUs online")


def quota(raw: Raw) -> Finding:
    quotas = [raw.text(path) for path in raw.files if path.endswith("/cpu.max")]
    if not quotas:
        raise Unknown("this process's control group has no cpu.max")
    limit = quotas[0].split()
    if not limit or limit[0] == "max":
        return Finding(NONE, False, NONE)
    return Finding(f"{limit[0]} of every {limit[-1]} µs", True, NONE)


def vulnerabilities(raw: Raw) -> str:
    states = raw.by_name(f"{CPU}/vulnerabilities/*", -1).values()
    counts = {
        word: sum(text.startswith(begin) for text in states)
        for word, begin in (
            ("mitigated", "Mitigation"),
            ("vulnerable", "Vulnerable"),
            ("not affected", "Not aff"),
        )
    }
    rest = len(states) - sum(counts.values())
    return ", ".join(
        f"{word} {count}" for word, count in [*counts.items(), ("other", rest)] if count
    )


def spectre_v2(raw: Raw) -> Finding:
    mitigation = raw.by_name(f"{CPU}/vulnerabilities/*", -1).get("spectre_v2")
    if mitigation is None:
        raise Unknown(f"this machine has no {CPU}/vulnerabilities/spectre_v2")
    return Finding(mitigation, "etpoline" in mitigation, "no retpolines, where that is safe")


def boot_mitigations(raw: Raw) -> str:
    return raw.boot_word("mitigations") or "not given (auto)"


def retpoline(raw: Raw) -> Finding:
    option = raw.option("MITIGATION_RETPOLINE")  # the name since 6.9
    built = option if option != "n" else raw.option("RETPOLINE")
    return wants("yes" if built == "y" else "no", "no")


def throttled(raw: Raw) -> Finding:
    counts = raw.each.get(f"{EACH_CPU}/thermal_throttle/*_throttle_count", {})
    if not counts:
        raise Unknown("this machine has no thermal_throttle counters")
    return wants(max(whole(text, "throttle_count") for text in counts), 0)


def pressure(raw: Raw) -> Finding:
    match = SHARE.search(raw.text("/proc/pressure/cpu"))
    if match is None:
        raise Unknown("/proc/pressure/cpu has no average")
    share = float(match[1])
    return Finding(share, share > MOST_PRESSURE_PCT, f"at most {MOST_PRESSURE_PCT:g}", "the lab")


def preemption(raw: Raw) -> str:
    """How readily the kernel lets another task run. A dynamic one was built for one model, which
    preempt= overrides; the model in use is shown to root only, in debugfs."""
    models = ("PREEMPT_RT", "PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT_LAZY", "PREEMPT")
    version = raw.text("/proc/sys/kernel/version").split()
    built = next((name for name in models if raw.config and raw.option(name) == "y"), "")
    model = built.removeprefix("PREEMPT_").lower() if built != "PREEMPT" else "full"
    given = raw.boot_word("preempt").partition("=")[2]
    if "PREEMPT_DYNAMIC" in version:
        if not (given or model):
            raise Unknown("the kernel is PREEMPT_DYNAMIC, and its build options cannot be read")
        return f"dynamic, {given or model} {'at boot' if given else 'by default'}"
    if "PREEMPT_RT" in version:
        return "rt"
    return "full" if "PREEMPT" in version else model or "none or voluntary"


def tick(raw: Raw) -> int:
    return whole(raw.option("HZ"), "CONFIG_HZ")


def daemons(raw: Raw) -> Finding:
    running = [str(name) for name in raw.fact("daemons")]
    adjusting = [name for name in running if name not in CLOCK_DAEMONS]
    return Finding(", ".join(adjusting) or NONE, bool(adjusting), NONE)


CLOCK_DAEMONS = ("chronyd", "ntpd", "systemd-timesyn")
RULES: dict[str, Rule] = {
    "cpu.model": lambda raw: processor(raw, "model name"),
    "cpu.online": online,
    "cpu.topology": topology,
    "cpu.smt": smt,
    "cpu.frequency_driver": lambda raw: raw.common(f"{EACH_CPU}/cpufreq/scaling_driver", -3),
    "cpu.governor": lambda raw: wants(
        raw.common(f"{EACH_CPU}/cpufreq/scaling_governor", -3), "performance"
    ),
    "cpu.frequency_limits": frequency_limits,
    "cpu.frequency_now": frequency_now,
    "cpu.turbo": turbo,
    "cpu.energy_preference": lambda raw: wants(
        raw.common(f"{EACH_CPU}/cpufreq/energy_performance_preference", -3), "performance"
    ),
    "cpu.idle_driver": lambda raw: raw.text(f"{CPU}/cpuidle/current_driver"),
    "cpu.idle_governor": lambda raw: raw.text(f"{CPU}/cpuidle/current_governor"),
    "cpu.idle_states": describe_idle_states,
    "cpu.deepest_idle": deepest_idle,
    "cpu.boot_idle": boot_idle,
    "cpu.wakeup_limit": wakeup_limit,
    "cpu.isolated": isolated,
    "cpu.nohz_full": nohz_full,
    "cpu.allowed": allowed,
    "cpu.quota": quota,
    "cpu.vulnerabilities": vulnerabilities,
    "cpu.spectre_v2": spectre_v2,
    "cpu.boot_mitigations": boot_mitigations,
    "cpu.microcode": lambda raw: processor(raw, "microcode"),
    "cpu.throttled": throttled,
    "cpu.pressure": pressure,
    "kernel.release": lambda raw: raw.text("/proc/sys/kernel/osrelease"),
    "kernel.retpoline": retpoline,
    "kernel.preemption": preemption,
    "kernel.hz": tick,
    "kernel.nmi_watchdog": lambda raw: wants(switch(raw, "/proc/sys/kernel/nmi_watchdog"), OFF),
    "kernel.autogroup": lambda raw: switch(raw, "/proc/sys/kernel/sched_autogroup_enabled"),
    "kernel.realtime_share": lambda raw: raw.number("/proc/sys/kernel/sched_rt_runtime_us"),
    "kernel.timer_migration": lambda raw: switch(raw, "/proc/sys/kernel/timer_migration"),
    "kernel.daemons": daemons,
}
