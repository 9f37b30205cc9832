"""Read and restore the settings of a machine's network device and netfilter.

    python3 device_settings.py read DEVICE              prints the settings, one JSON object
    python3 device_settings.py restore DEVICE JSON      sets what differs from these settings

Network namespaces end with a run, and their settings with them. The settings of a machine remain,
so its testbed reads them before a run and restores them afterwards. A setting that a device does
not have is omitted.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
from pathlib import Path

COALESCING = "ethtool -C rx-usecs"
QUEUES = "ethtool -L"
OFFLOADS = "ethtool -K"
TABLES = "nft tables"
# Offloads that are one feature, under the name that `ethtool -K` takes. The others are groups,
# whose features `ethtool -k` indents; `tso on` switches on even those that were off.
SINGLE = {
    "rx-checksumming": "rx",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
}
CHANNELS = ("rx", "tx", "combined")
FILES = (
    *("{0}/napi_defer_hard_irqs", "{0}/gro_flush_timeout", "{0}/queues/rx-*/rps_cpus"),
    # Virtio devices have their interrupts one folder above their own.
    *("{0}/device/msi_irqs/*", "{0}/device/../msi_irqs/*"),
)
LOADED = "/sys/module/nf_tables"
LOADABLE = "/lib/modules/{}/kernel/net/netfilter/nf_tables.ko*"
COMMAND_S = 20

Settings = dict[str, str]


def read(device: str) -> Settings:
    """The settings of the device and of netfilter, by name; those in files by their path."""
    coalescing = _values(_said("ethtool", "-c", device)).get("rx-usecs", "")
    current = _said("ethtool", "-l", device).partition("Current hardware settings")[2]
    channels = {name.lower(): value for name, value in _values(current).items()}
    found = {
        QUEUES: _words({name: channels.get(name, "") for name in CHANNELS}),
        COALESCING: coalescing if coalescing.isdigit() else "",
        OFFLOADS: _words(_features(_said("ethtool", "-k", device))),
    }
    # Without the module there are no tables, and nft would load it.
    has_tables = os.path.isdir(LOADED) or not glob.glob(LOADABLE.format(os.uname().release))
    tables = _said("nft", "list", "tables") if has_tables else ""
    return {
        **{name: value for name, value in found.items() if value},
        **_files(device),
        TABLES: ",".join(sorted(line.removeprefix("table ") for line in tables.splitlines())),
    }


def _values(text: str) -> dict[str, str]:
    """The lines `name: value` of ethtool, without those that cannot be changed."""
    rows = re.findall(r"^\s*([^:\n]+):[ \t]+(\S+)(.*)$", text, re.MULTILINE)
    return {name: value for name, value, more in rows if "[fixed]" not in more}


def _features(text: str) -> dict[str, str]:
    """The features of a device that can be changed, under the names that `ethtool -K` takes."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(": ")
        if "[fixed]" in value or not (line.startswith("\t") or name in SINGLE):
            continue
        found[SINGLE.get(name, name.strip())] = value.split()[0]
    return found


def _words(values: dict[str, str]) -> str:
    """Pairs of a name and a value, without values that are not available."""
    return " ".join(f"{k} {v}" for k, v in values.items() if v in ("on", "off") or v.isdigit())


def _files(device: str) -> Settings:
    """The settings that are files: deferred interrupts, RPS, and the CPUs of interrupts."""
    found = {}
    for pattern in FILES:
        for path in sorted(glob.glob(pattern.format(f"/sys/class/net/{device}"))):
            if "/msi_irqs/" in path:
                path = f"/proc/irq/{os.path.basename(path)}/smp_affinity_list"
            try:
                found[path] = Path(path).read_text().strip()
            except OSError:
                continue  # an interrupt that no driver has requested
    return found


def _said(*argv: str) -> str:
    """What a command prints; nothing if it fails or does not exist."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def restore(device: str, before: Settings) -> Settings:
    """Set what differs from `before`; return what still differs, with its present value."""
    now = read(device)
    if _differing(before, now).get(QUEUES):
        # First, because a change of the number of queues may move interrupts.
        _said("ethtool", "-L", device, *before[QUEUES].split())
        now = read(device)
    different = _differing(before, now)
    for name in different:
        _set(device, name, before[name], now)
    return _differing(before, read(device)) if different else {}


def _differing(before: Settings, now: Settings) -> Settings:
    return {
        name: now.get(name, "unknown") for name, value in before.items() if now.get(name) != value
    }


def _set(device: str, name: str, value: str, now: Settings) -> None:
    if name == COALESCING:
        _said("ethtool", "-C", device, "rx-usecs", value)
    elif name == OFFLOADS:
        _said("ethtool", "-K", device, *value.split())
    elif name == TABLES:
        for table in set(now[TABLES].split(",")) - set(value.split(",")):
            _said("nft", "delete", "table", *table.split())
    elif name.startswith("/"):
        _write(name, value)


def _write(path: str, value: str) -> None:
    try:
        Path(path).write_text(value)
    except OSError:
        return  # what still differs is reported


def main(argv: list[str]) -> int:
    if argv[0] == "read":
        print(json.dumps(read(argv[1])))
        return 0
    different = restore(argv[1], json.loads(argv[2]))
    for name, value in different.items():
        print(f"{name} is '{value}'", file=sys.stderr)
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
