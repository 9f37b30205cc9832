"""What runs are performed with: programs on this machine, or two machines reached over ssh.

The digests of programs are inputs of a run. On the vagrant testbed the inputs are listed per host,
because the two may differ: `server.nginx`, `client.linux`.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from labs.drive.kernel.boot import PATH
from labs.drive.kernel.guest_root import libraries
from labs.drive.kernel.kept_copy import content_digest
from labs.errors import Missing
from labs.guest.testbed.contract import Host
from labs.guest.testbed.process import PACKAGES

# Programs that any run may start, whatever its experiment: for the hosts, the link, the samplers,
# and the files that are served.
EVERY_RUN = ("ip", "tc", "ss", "nstat", "truncate", "touch")
OLDEST_PYTHON = (3, 11)
ASKED = {"nginx": "-v"} | dict.fromkeys(("tc", "ip", "ss", "nstat", "ab", "ssh", "sshd"), "-V")


def find(name: str) -> Path:
    """The path of a program in the system's folders; Missing, with the package that contains it."""
    path = shutil.which(name, path=PATH)
    if path is None:
        raise Missing(
            f"{name} is not installed. On Debian: apt-get install {PACKAGES.get(name, name)}"
        )
    return Path(path)


@functools.cache
def python() -> Path:
    """The interpreter of the driving half: the system's if it is new enough, else this one."""
    system = shutil.which("python3", path=PATH)
    if system and _version(system) >= OLDEST_PYTHON:
        return Path(system)
    return Path(getattr(sys, "_base_executable", sys.executable))


def _version(interpreter: str) -> tuple[int, ...]:
    done = subprocess.run(
        (interpreter, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2])"),
        capture_output=True,
    )
    return tuple(int(word) for word in done.stdout.split())


def programs(names: Iterable[str]) -> dict[str, Path]:
    """The paths of these programs; Missing if one is not installed."""
    return {name: find(name) for name in names}


def digests(programs: Mapping[str, Path], interpreter: Path) -> dict[str, dict[str, str]]:
    """The digests of programs, of the interpreter (as python3), and of every shared library that
    they load (by soname): inputs of a run that uses this machine's own files."""
    tools = {**programs, "python3": interpreter}
    return {
        "tools": {name: content_digest(path) for name, path in tools.items()},
        "libraries": {
            name: content_digest(path) for name, path in libraries(tools.values()).items()
        },
    }


def versions(programs: Mapping[str, Path], interpreter: Path) -> dict[str, str]:
    """The first line of each program's version output, and the version of the C library."""
    return {
        **{name: version(path) for name, path in programs.items()},
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "",
        "python3": version(interpreter),
    }


def version(path: Path) -> str:
    """The first line of a program's version output."""
    return _version_of(path, content_digest(path))


@functools.cache
def _version_of(path: Path, digest: str) -> str:
    done = subprocess.run(
        (path, ASKED.get(path.name, "--version")),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": PATH, "LC_ALL": "C"},
    )
    lines = (done.stdout or done.stderr).decode("utf-8", "replace").strip().splitlines()
    return next((line for line in lines if not line.startswith(OF_THE_LOADER)), "")


# Begins a line about a library that /etc/ld.so.preload names and that cannot be loaded.
OF_THE_LOADER = "ERROR: ld.so: "
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
