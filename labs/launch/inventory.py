"""What runs on two machines reached over ssh are performed with.

The inputs of a run are listed per host, because the two may differ: `server.nginx`, `client.linux`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from labs.drive.kernel.programs import ASKED
from labs.errors import Missing
from labs.guest.testbed.contract import Host

# Programs that every run starts on a machine, whatever its experiment.
EVERY_RUN_ON_MACHINES = ("python3", "ip", "tc", "ss", "nstat")
MEMORY_STEP_MIB = 64


@dataclass(frozen=True)
class Inventory:
    """How to reach both machines; for each item on them a digest and a line of text."""

    ssh_config: Path
    digests: dict[str, str]
    versions: dict[str, str]


def inspect(ssh_config: Path, names: tuple[str, ...]) -> Inventory:
    """Inspect both machines; Missing if one cannot be reached, is in use, or lacks a tool."""
    from labs.drive.testbed.ssh import SshHost  # noqa: PLC0415  not on every system
    from labs.drive.testbed.vagrant import ADDRESSES, machine  # noqa: PLC0415

    digests: dict[str, str] = {}
    versions: dict[str, str] = {}
    for name in ADDRESSES:
        vm = machine(name, ssh_config)
        host = SshHost(name, vm.address, vm.device, vm.login, vm.folder, [], [])
        host.open()
        try:
            texts = {"linux": host.run(("uname", "-srv")).text.strip(), "machine": hardware(host)}
            digests |= {
                f"{name}.{what}": hashlib.sha256(text.encode()).hexdigest()
                for what, text in texts.items()
            }
            tools = paths(host, dict.fromkeys((*EVERY_RUN_ON_MACHINES, *names)))
            digests |= {f"{name}.{tool}": digest for tool, digest in hashed(host, tools).items()}
            texts |= {tool: version_on(host, tool, path) for tool, path in tools.items()}
            versions |= {f"{name}.{what}": text for what, text in texts.items()}
        finally:
            host.close()
    return Inventory(ssh_config, digests, versions)


def paths(host: Host, names: Iterable[str]) -> dict[str, str]:
    """The path of each tool on a host; Missing, with the command to run, if one is not there."""
    wanted = tuple(names)
    done = host.run(("which", *wanted), check=False)
    by_name = {PurePosixPath(line).name: line for line in done.text.splitlines()}
    lacking = [name for name in wanted if name not in by_name]
    if lacking:
        raise Missing(
            f"{host.name} lacks {', '.join(lacking)}, which a newly built box contains. Run: "
            "make box && vagrant destroy -f && vagrant up"
        )
    return {name: by_name[name] for name in wanted}


def hashed(host: Host, tools: dict[str, str]) -> dict[str, str]:
    """The SHA-256 of each tool."""
    lines = host.run(("sha256sum", *tools.values())).text.splitlines()
    return {name: line.split()[0] for name, line in zip(tools, lines, strict=True)}


def version_on(host: Host, tool: str, path: str) -> str:
    """The first line of a tool's version output on a host."""
    done = host.run((path, ASKED.get(tool, "--version")), check=False)
    text = (done.stdout or done.stderr).decode("utf-8", "replace").strip()
    return text.splitlines()[0] if text else ""


def hardware(host: Host) -> str:
    """A machine's processors, memory, and network device, as reported by its kernel."""
    models = [
        line.partition(":")[2].strip()
        for line in host.read("/proc/cpuinfo").decode().splitlines()
        if line.startswith("model name")
    ]
    total_kib = int(host.read("/proc/meminfo").decode().split()[1])
    memory_mib = round(total_kib / 1024 / MEMORY_STEP_MIB) * MEMORY_STEP_MIB
    processors = f"{len(models)} x {models[0] if models else 'unknown'}"
    return f"{processors}, {memory_mib} MiB, {device(host)}"


def device(host: Host) -> str:
    """The driver of a machine's device, and how many receive queues the device has."""
    about = host.run(("ethtool", "-i", host.device)).text
    driver = about.partition("driver: ")[2].split("\n")[0] or "unknown driver"
    listed = host.run(("ls", f"/sys/class/net/{host.device}/queues"), check=False).text.split()
    queues = sum(name.startswith("rx-") for name in listed)
    return f"{driver}, receive queues: {queues or 'unknown'}"
