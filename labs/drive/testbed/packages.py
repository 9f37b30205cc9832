"""The package of each tool, under the package manager of the machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

# Package managers, in the order in which they are tried, and their command to install.
INSTALL = {
    "apt-get": "apt-get install -y",
    "dnf": "dnf install -y",
    "zypper": "zypper install -y",
    "pacman": "pacman -S --needed",
    "apk": "apk add",
}
# The same name with every package manager, except for those of OTHERWISE.
PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ss": "iproute2",
    "nstat": "iproute2",
    "setpriv": "util-linux",
    "taskset": "util-linux",
    "unshare": "util-linux",
    "truncate": "coreutils",
    "touch": "coreutils",
    "ab": "apache2-utils",
    "nft": "nftables",
    "qemu-img": "qemu-utils",
    "qemu-system-x86_64": "qemu-system-x86",
    "sfdisk": "fdisk",
    "mke2fs": "e2fsprogs",
    "mkfs.fat": "dosfstools",
    "mcopy": "mtools",
}
# The tools that labs start on machines; the boxes of virtual machines are built with them.
MACHINE_TOOLS = (
    "python3",
    "ip",
    "tc",
    "ss",
    "nstat",
    "nginx",
    "wget",
    "curl",
    "httping",
    "ab",
    "iperf3",
    "tcpdump",
    "ethtool",
    "wrk",
    "nft",
)
KIT_TOOLS = (
    *("ip", "tc", "ss", "nstat", "truncate", "touch"),
    *(name for name in MACHINE_TOOLS if name not in ("python3", "wrk", "nft")),
)
"""The tools that virtual runs start; a kit has those that are installed, and an interpreter."""
OTHERWISE = {
    ("dnf", "ip"): "iproute",
    ("dnf", "ss"): "iproute",
    ("dnf", "nstat"): "iproute",
    ("dnf", "tc"): "iproute-tc",
    ("dnf", "ab"): "httpd-tools",
    ("pacman", "ab"): "apache",
    ("pacman", "python3"): "python",
    ("apk", "setpriv"): "setpriv",
}


def manager() -> str | None:
    """The package manager of this machine, or None if it is not a known one."""
    return next((name for name in INSTALL if shutil.which(name) is not None), None)


def packages(tools: Iterable[str], manager: str) -> tuple[str, ...]:
    """The packages of these tools, each once, in order."""
    names = (OTHERWISE.get((manager, tool), PACKAGES.get(tool, tool)) for tool in tools)
    return tuple(dict.fromkeys(names))


def install_line(tools: Iterable[str]) -> str:
    """The command that installs these tools here, with sudo unless this is root."""
    tools = list(tools)
    installer = manager()
    if installer is None:
        return f"install {', '.join(tools)} with the package manager of your system"
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}{INSTALL[installer]} {' '.join(packages(tools, installer))}"
