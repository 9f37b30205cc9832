"""What the machines of the vagrant testbed are: kernels, processors, tools, asked over ssh.

Each is an input of a run, by host, for the two may differ: `server.nginx`, `client.linux`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from labs.drive.testbed.contract import Host
from labs.drive.testbed.ssh import SshHost
from labs.drive.testbed.vagrant import ADDRESSES, machine
from labs.errors import Missing
from labs.launch.tools import ASKED

# What every run starts on a machine, whatever its experiment.
ALWAYS = ("python3", "ip", "tc", "ss", "nstat")
MEMORY_STEP_MIB = 64


@dataclass(frozen=True)
class There:
    """How both machines are reached; of each thing the digest, and the line that tells it."""

    ssh_config: Path
    digests: dict[str, str]
    versions: dict[str, str]


@functools.cache
def look(ssh_config: Path, names: tuple[str, ...]) -> There:
    """Ask both machines; Missing if one cannot be reached, is in use, or lacks a tool."""
    digests: dict[str, str] = {}
    versions: dict[str, str] = {}
    for name in ADDRESSES:
        one = machine(name, ssh_config)
        host = SshHost(name, one.address, one.device, one.login, one.folder, [], [])
        host.open()
        try:
            said = {"linux": host.run(("uname", "-srv")).text.strip(), "machine": hardware(host)}
            digests |= {
                f"{name}.{what}": hashlib.sha256(text.encode()).hexdigest()
                for what, text in said.items()
            }
            found = paths(host, dict.fromkeys((*ALWAYS, *names)))
            digests |= {f"{name}.{tool}": digest for tool, digest in hashed(host, found).items()}
            said |= {tool: version(host, tool, path) for tool, path in found.items()}
            versions |= {f"{name}.{what}": text for what, text in said.items()}
        finally:
            host.close()
    return There(ssh_config, digests, versions)


def paths(host: Host, names: Iterable[str]) -> dict[str, str]:
    """Where each tool is on a host; Missing, with how to get them, if one is not there."""
    wanted = tuple(names)
    done = host.run(("which", *wanted), check=False)
    found = {PurePosixPath(line).name: line for line in done.text.splitlines()}
    lacking = [name for name in wanted if name not in found]
    if lacking:
        raise Missing(
            f"{host.name} lacks {', '.join(lacking)}, which the box of the labs has; "
            "make box && vagrant destroy -f && vagrant up"
        )
    return {name: found[name] for name in wanted}


def hashed(host: Host, found: dict[str, str]) -> dict[str, str]:
    """The sha256 of each tool."""
    lines = host.run(("sha256sum", *found.values())).text.splitlines()
    return {name: line.split()[0] for name, line in zip(found, lines, strict=True)}


def version(host: Host, tool: str, path: str) -> str:
    """What a tool says of its version, in its first line."""
    done = host.run((path, ASKED.get(tool, "--version")), check=False)
    said = (done.stdout or done.stderr).decode("utf-8", "replace").strip()
    return said.splitlines()[0] if said else ""


def hardware(host: Host) -> str:
    """A machine's processors and memory, as its kernel tells them."""
    models = [
        line.partition(":")[2].strip()
        for line in host.read("/proc/cpuinfo").decode().splitlines()
        if line.startswith("model name")
    ]
    total_kib = int(host.read("/proc/meminfo").decode().split()[1])
    memory_mib = round(total_kib / 1024 / MEMORY_STEP_MIB) * MEMORY_STEP_MIB
    return f"{len(models)} x {models[0] if models else 'unknown'}, {memory_mib} MiB"
