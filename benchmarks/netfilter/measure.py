"""What CONFIG_NETFILTER and CONFIG_RETPOLINE cost, in instructions per request.

    make benchmark-netfilter

Builds Linux for x86-64 without either option and with one of them, boots each kernel in QEMU with
`-icount shift=0`, where time advances by 1 ns per instruction, and lets a server and a client on it
(netfilter.c) exchange the article's requests over the loopback device. One figure therefore
includes both ends, but no network card. Real time cannot tell such kernels apart on a shared
machine; instructions can, but they do not show what a cache miss or a mispredicted branch costs.

Needs the packages qemu-system-x86 and libelf-dev, those of `labs kernel build`, and about an hour.
Writes the counts of all rounds to labs/experiments/stack/instructions.json, from which A2.9 and
A2.12 are judged.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median

from labs.drive.compiled import compiled
from labs.drive.kernel import build, kernel_source, options, store
from labs.drive.kernel.versions import read_kernel_spec
from labs.drive.testbed.packages import install_line
from labs.errors import LabError, Missing, RunFailed

HERE = Path(__file__).resolve().parent
RECORD = HERE.parents[1] / "labs" / "experiments" / "stack" / "instructions.json"
SERIES = "6.1"
IPTABLES = ("CONFIG_NETFILTER_ADVANCED", "CONFIG_NETFILTER_XTABLES", "CONFIG_IP_NF_IPTABLES")
NETFILTER = ("CONFIG_NETFILTER", *IPTABLES, "CONFIG_IP_NF_FILTER")
RETPOLINE = ("CONFIG_CPU_MITIGATIONS", "CONFIG_RETPOLINE")
OPTIONS = {"none": (), "netfilter": NETFILTER, "retpoline": RETPOLINE}
"""What each kernel has besides kernel.config."""
MACHINES = {name: (name, "") for name in OPTIONS} | {"table": ("netfilter", "table")}
"""The kernel that is booted, and the argument of its program."""
QEMU = "qemu-system-x86_64"
EMULATED = (
    *("-accel", "tcg", "-icount", "shift=0,sleep=off", "-m", "256", "-no-reboot"),
    *("-nodefaults", "-display", "none", "-serial", "stdio"),
)
INSIDE = "dir /dev 755 0 0\nnod /dev/console 600 0 0 c 5 1\nfile /init {program} 755 0 0\n"
BOOT_S = 600


def make(tree: Path, *words: str) -> None:
    """Run make for x86-64; RunFailed with its last line if it fails."""
    argv = ("make", "--silent", "ARCH=x86", f"-j{len(os.sched_getaffinity(0))}", *words)
    done = subprocess.run(
        argv, cwd=tree, env=build.environment(tree), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RunFailed(f"make {words[-1]} failed: {done.stderr.strip()[-500:]}")


def kernel(tree: Path, name: str) -> Path:
    """The kernel with the options of `name`. What they do not change is compiled once."""
    make(tree, "tinyconfig")
    wanted = (HERE / "kernel.config").read_text("utf-8")
    wanted += "".join(f"{option}=y\n" for option in OPTIONS[name])
    with (tree / ".config").open("a", encoding="utf-8") as config:
        config.write(wanted)
    make(tree, "olddefconfig")
    made = options.options_of((tree / ".config").read_text("utf-8"))
    options.verify_options(options.options_of(wanted), made, SERIES)
    make(tree, "bzImage")
    return (tree / "arch/x86/boot/bzImage").rename(tree.parent / f"kernel-{name}")


def root(tree: Path) -> Path:
    """The archive that a kernel unpacks into memory: a console, and our program as init."""
    content, made = tree.parent / "root.txt", tree.parent / "root.cpio"
    content.write_text(INSIDE.format(program=compiled(HERE)), "utf-8")
    with made.open("wb") as output:
        subprocess.run((tree / "usr/gen_init_cpio", content), stdout=output, check=True)
    return made


def rounds(booted: Path, archive: Path, argument: str) -> list[float]:
    """Instructions per request, round by round."""
    words = f"console=ttyS0 quiet panic=-1 -- {argument}"
    argv = (QEMU, *EMULATED, "-kernel", booted, "-initrd", archive, "-append", words)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=BOOT_S, check=False)
    values: dict[str, list[str]] = {}
    for name, _, value in (line.partition(",") for line in done.stdout.splitlines()):
        values.setdefault(name, []).append(value)
    counts_instructions = "loop" in values and abs(float(values["loop"][0]) - 2) < 0.02
    if not counts_instructions or "round" not in values or ("hooks" in values) != bool(argument):
        raise RunFailed(f"{booted.name} {argument}: {done.stdout[-500:]} {done.stderr[-500:]}")
    return [float(value) for value in values["round"]]


def first_line(argv: Iterable[str]) -> str:
    """The first line that a command prints: its version."""
    return subprocess.run((*argv,), capture_output=True, text=True, check=True).stdout.splitlines()[
        0
    ]


def write(counts: Mapping[str, list[float]], source: str) -> None:
    """Write the record: what was built with what, and the counts, one line per kernel."""
    versions = {"source": source, "compiler": first_line(("gcc", "--version"))}
    record = {**versions, "emulator": first_line((QEMU, "--version")), "per_request": {}}
    head = json.dumps(record, indent=1).removesuffix("{}\n}")
    rows = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(counted)}" for name, counted in counts.items()
    )
    RECORD.write_text(f"{head}{{\n{rows}\n }}\n}}\n", "utf-8")


def main() -> int:
    """Build, boot, count, and write the record."""
    if shutil.which(QEMU) is None:
        raise Missing(f"{QEMU} is not installed. Run: {install_line(('qemu-system-x86',))}")
    build.needs()
    with store.work_folder(store.own_store().resolve(), 2 * build.ROOM_MIB) as work:
        source = kernel_source.locate(read_kernel_spec(SERIES))
        tree = work / "tree"
        kernel_source.unpack(kernel_source.fetch(source, work), tree)
        kernels = {name: kernel(tree, name) for name in OPTIONS}
        archive = root(tree)
        counts = {
            name: rounds(kernels[booted], archive, argument)
            for name, (booted, argument) in MACHINES.items()
        }
    write(counts, source.version)
    for name, counted in counts.items():
        print(f"{name:10} {median(counted):,.0f} ({min(counted):,.0f} to {max(counted):,.0f})")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(str(error))
