"""Read the settings of this machine that decide how fast its network stack is, and change nothing.

Prints one JSON object: the text of files and the output of tools as they are, and what could not be
read, with the reason. It runs where the machine is: on this one, or on another one over ssh with
its source on standard input. `labs/read/audit` turns the object into items.

Nothing is loaded into the kernel either: `nft list` would load nf_tables, so it is only started
where that is there already. What identifies people or other machines is left out: addresses, the
rules of a firewall, and words of the kernel's command line that are not about performance.
"""

import glob
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

SCHEMA = 1
LONGEST_TEXT = 1 << 14
MOST_DEVICES = 8
TIMEOUT_S = 10
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
IFF_UP = 1

CPU = "/sys/devices/system/cpu"
NET = "/sys/class/net"
FILES = (
    f"{CPU}/online",
    f"{CPU}/present",
    f"{CPU}/isolated",
    f"{CPU}/smt/active",
    f"{CPU}/intel_pstate/no_turbo",
    f"{CPU}/cpufreq/boost",
    f"{CPU}/cpuidle/current_driver",
    f"{CPU}/cpuidle/current_governor",
    f"{CPU}/vulnerabilities/spectre_v2",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/net/netfilter/nf_conntrack_count",
)
# Files that each CPU or queue has: texts are stored once, with the names that have them.
EACH = (
    *(
        f"{CPU}/cpu[0-9]*/cpufreq/scaling_{name}"
        for name in ("driver", "governor", "min_freq", "max_freq")
    ),
    *(f"{CPU}/cpu[0-9]*/cpuidle/state[0-9]*/{name}" for name in ("name", "latency", "disable")),
)
OF_A_DEVICE = ("mtu", "speed", "napi_defer_hard_irqs", "gro_flush_timeout")
ETHTOOL = ("-i", "-c", "-l", "-k")
# The lines of longer files that are kept, by how they begin ("": the whole file).
LINES = {
    "/proc/stat": ("cpu",),
    "/proc/meminfo": ("MemTotal",),
    "/proc/self/status": ("Cpus_allowed_list",),
    "/proc/modules": ("nf", "ip_tables", "ip6_tables", "iptable_", "xt_", "ebt", "br_netfilter"),
}
# The lines about the first processor that are kept; how many there are is in `facts`.
OF_A_PROCESSOR = ("model name", "flags")
# Options of the kernel's build that decide a default or what may be set.
OPTIONS = re.compile(
    r"CONFIG_(?:HZ|DEFAULT_TCP_CONG|DEFAULT_NET_SCH|NETFILTER|NF_TABLES|(?:MITIGATION_)?RETPOLINE|"
    r"BPF_JIT_DEFAULT_ON)=.*"
)
BOOT_WORDS = (
    "mitigations", "intel_idle.max_cstate", "processor.max_cstate", "idle", "cpuidle.off",
    "preempt",
)  # fmt: skip
DAEMONS = ("irqbalance", "tuned", "power-profiles-", "thermald", "firewalld", "numad")
# Attributes of routes that change what TCP does; the addresses are left out.
OF_A_ROUTE = ("congctl", "initcwnd", "initrwnd", "quickack", "rto_min", "window", "advmss", "mtu",
              "features")  # fmt: skip
# `nft` may be asked without loading anything where nf_tables is there.
RULESET = ("nft", "--stateless", "list", "ruleset")
# Of what nft prints: tables, chains, and what is attached to hooks.
SHAPE = re.compile(r"(?:table|chain|type|hook|family)\b")
SYSCTLS = ("/proc/sys/net/core/*", "/proc/sys/net/ipv4/tcp_*")
# Secrets and numbers drawn at random.
NEVER = ("tcp_fastopen_key", "netdev_rss_key")
# A namespace of its own starts with the defaults; entries without a write bit are shared with the
# initial namespace (net/core/sysctl_net_core.c: sysctl_core_net_init).
FRESH = """
import glob, json, os, sys
found = {"files": {}, "read_only": []}
for path in (one for pattern in sys.argv[2:] for one in glob.glob(pattern)):
    if not path.endswith(tuple(sys.argv[1].split(","))):
        try:
            with open(path) as file:
                found["files"][path] = file.read()
        except OSError:
            continue
        if not os.stat(path).st_mode & 0o222:
            found["read_only"].append(path)
print(json.dumps(found))
"""


class Seen:
    """What was read: texts by path, refusals by path, and the output of tools."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.each: dict[str, dict[str, list[str]]] = {}
        self.refused: dict[str, str] = {}
        self.commands: list[dict[str, Any]] = []

    def read(self, path: str, begins: tuple[str, ...] = ("",)) -> None:
        text = self.text(path)
        if text is not None:
            lines = (line for line in text.splitlines(True) if line.startswith(begins))
            self.files[path] = "".join(lines)[:LONGEST_TEXT]

    def text(self, path: str) -> str | None:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError as error:
            self.refused[path] = error.strerror or type(error).__name__
            return None

    def read_each(self, pattern: str, base: str = "") -> None:
        """Read the files that match, and store each text once, with the paths that have it."""
        paths_by_text: dict[str, list[str]] = {}
        for path in sorted(glob.glob(f"{base}{pattern}")):
            text = self.text(path)
            if text is not None:
                paths_by_text.setdefault(text[:LONGEST_TEXT].strip(), []).append(path)
        if paths_by_text:
            self.each[f"{base}{pattern}"] = paths_by_text

    def run(self, *argv: str, keep: Callable[[str], str] | None = None) -> None:
        """Run a tool that only reports. `keep` turns its output into what is stored of it."""
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=TIMEOUT_S,
                env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
            )
        except FileNotFoundError:
            self.commands.append({"argv": argv, "exit": 127, "out": "", "err": "not installed"})
            return
        except (OSError, subprocess.TimeoutExpired) as error:
            self.commands.append({"argv": argv, "exit": 126, "out": "", "err": str(error)})
            return
        out, err = (part.decode("utf-8", "replace") for part in (done.stdout, done.stderr))
        out = keep(out) if keep else out
        self.commands.append(
            {
                "argv": argv,
                "exit": done.returncode,
                "out": out[:LONGEST_TEXT],
                "err": err[:LONGEST_TEXT],
            }
        )


def collect() -> dict[str, Any]:
    """Everything, as one object that JSON can hold."""
    seen = Seen()
    for path in FILES:
        seen.read(path)
    for path, begins in LINES.items():
        seen.read(path, begins)
    for pattern in EACH:
        seen.read_each(pattern)
    for pattern in SYSCTLS:
        read_sysctls(seen, pattern)
    read_processor(seen)
    read_limits(seen)
    config = kernel_config(seen)
    for device in devices():
        read_device(seen, device)
    read_netfilter(seen, config)
    seen.run("ip", "route", "show", "table", "all", keep=lambda out: words(out, OF_A_ROUTE))
    return {
        "schema": SCHEMA,
        "files": seen.files,
        "each": seen.each,
        "refused": seen.refused,
        "commands": seen.commands,
        "config": config,
        "fresh": fresh_namespace(),
        "facts": facts(),
    }


def read_sysctls(seen: Seen, pattern: str) -> None:
    for path in sorted(glob.glob(pattern)):
        if not path.endswith(NEVER):
            seen.read(path)


def read_processor(seen: Seen) -> None:
    text = seen.text("/proc/cpuinfo") or ""
    first = text.partition("\n\n")[0].splitlines(True)
    seen.files["/proc/cpuinfo"] = "".join(line for line in first if line.startswith(OF_A_PROCESSOR))


def read_limits(seen: Seen) -> None:
    """The CPU quota of this process's control group, and the boot words about performance."""
    below = (seen.text("/proc/self/cgroup") or "").rpartition("0::")[2].strip()
    seen.read(f"/sys/fs/cgroup{below.rstrip('/')}/cpu.max")
    boot = (seen.text("/proc/cmdline") or "").split()
    seen.files["/proc/cmdline"] = " ".join(
        word for word in boot if word.partition("=")[0] in BOOT_WORDS
    )


def kernel_config(seen: Seen) -> str:
    """The options of the kernel's build, from the kernel or from /boot; empty if neither has it."""
    release = os.uname().release
    for path, opened in (("/proc/config.gz", gzip.open), (f"/boot/config-{release}", open)):
        try:
            with opened(path, "rt", encoding="utf-8", errors="replace") as file:
                return "".join(line for line in file if OPTIONS.match(line))
        except OSError as error:
            seen.refused[path] = error.strerror or type(error).__name__
    return ""


def devices() -> list[str]:
    """Devices that are up: with hardware behind them, or any if none has."""
    up = []
    for path in sorted(glob.glob(f"{NET}/*/flags")):
        try:
            with open(path, encoding="ascii") as file:
                flags = int(file.read(), 16)
        except (OSError, ValueError):
            continue
        name = path.split("/")[-2]
        if flags & IFF_UP and name != "lo":
            up.append(name)
    physical = [name for name in up if os.path.exists(f"{NET}/{name}/device")]
    return (physical or up)[:MOST_DEVICES]


def read_device(seen: Seen, name: str) -> None:
    base = f"{NET}/{name}/"
    for path in OF_A_DEVICE:
        seen.read(base + path)
    seen.read_each("queues/rx-*/rps_cpus", base)
    for flag in ETHTOOL:
        seen.run("ethtool", flag, name)
    seen.run("tc", "qdisc", "show", "dev", name)


def words(text: str, wanted: Iterable[str]) -> str:
    """The wanted words with the word after them, one pair per line."""
    pairs = itertools.pairwise([*text.replace("\\", " ").split(), ""])
    return "".join(sorted({f"{name} {value}\n" for name, value in pairs if name in wanted}))


def read_netfilter(seen: Seen, config: str) -> None:
    """Tables, chains and the number of rules. Not started where it would load a module."""
    if "CONFIG_NF_TABLES=y" in config or os.path.exists("/sys/module/nf_tables"):
        seen.run(*RULESET, keep=shape_of_rules)


def shape_of_rules(out: str) -> str:
    """The lines about tables and chains; of rules only how many there are."""
    kept: list[str] = []
    rules = 0
    for line in [*(line.strip() for line in out.splitlines()), "table"]:
        if SHAPE.match(line):
            kept += [f"rules {rules}"] * bool(rules)
            kept.append("chain" if line.startswith("chain ") else line)
            rules = 0
        else:
            rules += bool(line and line != "}")
    return "".join(f"{line}\n" for line in kept[:-1])


def fresh_namespace() -> dict[str, Any]:
    """The sysctls of a new network namespace, which ends with the process that reads them."""
    how = ("-n",) if os.geteuid() == 0 else ("-rn",)
    python = (sys.executable, "-I", "-S", "-c", FRESH, ",".join(NEVER), *SYSCTLS)
    try:
        done = subprocess.run(
            ("unshare", *how, *python),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"files": {}, "read_only": [], "error": str(error)}
    if done.returncode:
        printed = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        return {"files": {}, "read_only": [], "error": printed[-1]}
    return {**json.loads(done.stdout), "error": ""}


def facts() -> dict[str, Any]:
    """What is no file: the user, and the programs that adjust settings."""
    running = set()
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                running.add(file.read().strip())
        except OSError:
            continue
    return {
        "root": os.geteuid() == 0,
        "cpus": os.cpu_count(),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "daemons": [
            name for name in DAEMONS if any(program.startswith(name) for program in running)
        ],
        "devices": devices(),
    }


def main() -> int:
    print(json.dumps(collect()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
