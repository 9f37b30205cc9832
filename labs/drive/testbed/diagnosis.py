"""The requirements of each testbed: whether this machine meets them, and what to run if not."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from labs.drive.kernel.kit import in_use
from labs.drive.kernel.memory import memory_folder
from labs.drive.kernel.memory_size import guest_memory_mib
from labs.drive.kernel.sandbox import ptrace_refused, seccomp_refused, tracing_disabled
from labs.drive.kernel.store import find
from labs.drive.kernel.versions import read_kernel_spec
from labs.drive.testbed import vagrant_up as machines_up
from labs.drive.testbed.packages import install_line
from labs.drive.testbeds import NAMESPACES, RECORDED, VAGRANT, VIRTUAL, Kind
from labs.errors import LabError, Missing
from labs.guest.units import MIB

TOOL_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
GUEST_MEMORY_MIB = 4096
# A run failed at 48 open files and at 40 MiB of address space beyond the guest's memory, and
# succeeded at 64 files and 104 MiB. The memory is one file, which is slightly larger.
OPEN_FILES = 128
BEYOND_MEMORY_MIB = 256
# The memory's file also has the gap before the heap of its process, whose size is random: up to
# 1 GiB (arch_randomize_brk of x86). Runs failed at 577 MiB beyond the memory, and not at 1053.
BEYOND_FILE_MIB = 1280
DRIVING_TOOLS = ("ip", "tc", "ss", "nstat", "nginx", "truncate", "touch", "python3")
# Tools that only one option needs.
OPTIONAL_TOOLS = {"wget": "--client wget", "tcpdump": "--capture", "ethtool": "--shaped-at router"}
HYPERVISORS = ("libvirtd", "virtqemud", "VBoxManage")
READING_MODULES = ("numpy", "pandas", "plotly")
USE_VIRTUAL = "labs run LAB --testbed virtual"
USE_RECORDED = "labs run LAB --testbed recorded"
RAISE_SCOPE = (
    "echo kernel.yama.ptrace_scope=1 | sudo tee /etc/sysctl.d/99-ptrace.conf && sudo reboot"
)

NOTES = (
    "ping does not show the delay: only TCP and UDP packets from port 80 of the server pass "
    "through the shaped class. Each run measures its RTT with a handshake on that port.",
)

# One trial per part of the link, each in a temporary network namespace.
LINK_TRIALS = {
    "veth": ("veth", "ip link add labs0 type veth peer name labs1"),
    "htb": ("sch_htb", "tc qdisc add dev lo root handle 1: htb"),
    "netem": ("sch_netem", "tc qdisc add dev lo root netem delay 1ms"),
    "fq_codel": ("sch_fq_codel", "tc qdisc add dev lo root fq_codel"),
    "u32": (
        "cls_u32",
        "tc qdisc add dev lo root handle 1: htb && "
        "tc filter add dev lo protocol ip parent 1: u32 match ip sport 80 0xffff flowid 1:1",
    ),
}

SHAPING = tuple(name for name in LINK_TRIALS if name != "veth")
"""The parts that only links with a rate, a delay or loss have."""


@dataclass(frozen=True)
class Check:
    """One requirement of a testbed: whether it is met, what was found, and the next step."""

    name: str
    ok: bool
    finding: str
    next_step: str = ""
    needed: bool = True


@dataclass(frozen=True)
class Diagnosis:
    """A testbed and the checks of its requirements."""

    where: Kind
    checks: tuple[Check, ...]

    @property
    def can_run(self) -> bool:
        """Whether labs run here; if not `shapes`, only those whose links are not shaped."""
        return all(check.ok for check in self.checks if check.needed)

    @property
    def shapes(self) -> bool:
        """Whether links with a rate, a delay or loss can be set up, as far as that was checked."""
        return all(check.ok for check in self.checks if check.name in SHAPING)

    def first_step(self) -> str:
        """The command to run first; empty if the testbed can run."""
        return next((check.next_step for check in self.checks if check.needed and not check.ok), "")


def examine(kernel: str = "6.1") -> tuple[Diagnosis, ...]:
    """The diagnosis of every testbed; `kernel` is the one that the virtual testbed will boot.

    The trials are programs, so the testbeds are examined side by side.
    """
    looks: dict[Kind, Callable[[], Iterator[Check]]] = {
        VIRTUAL: lambda: virtual(kernel),
        NAMESPACES: namespaces,
        VAGRANT: vagrant,
        RECORDED: recorded,
    }
    with ThreadPoolExecutor(len(looks)) as side_by_side:
        checks = side_by_side.map(lambda look: tuple(look()), looks.values())
        return tuple(map(Diagnosis, looks, checks))


def virtual(kernel: str) -> Iterator[Check]:
    """The requirements of booting a kernel as a process."""
    system = f"{platform.system()} {platform.machine()}"
    yield Check("machine", system == "Linux x86_64", system, USE_RECORDED)
    if system != "Linux x86_64":
        return
    yield built_kernel(kernel)
    yield from kit_in_use()
    yield from boot_modes()
    memory_mib = guest_memory_mib(GUEST_MEMORY_MIB, read_kernel_spec(kernel).series)
    yield guest_memory(memory_mib)
    yield process_limits(memory_mib)


def namespaces() -> Iterator[Check]:
    """The requirements of two hosts on this machine's kernel."""
    if platform.system() != "Linux":
        yield Check("machine", False, platform.system(), USE_RECORDED)
        return
    yield from tools((*DRIVING_TOOLS, "setpriv", "unshare"))
    if os.geteuid() != 0:
        yield Check(
            "rights", False, "not root", 'sudo env "PATH=$PATH" labs run LAB --testbed namespaces'
        )
        return
    failed = _in_a_namespace("true")
    if failed is not None:
        yield Check("rights", False, f"root cannot create namespaces: {failed}", USE_VIRTUAL)
        return
    yield Check("rights", True, "root, and network namespaces can be created")
    for name in LINK_TRIALS:
        yield replace(part_of_the_link(name), needed=name not in SHAPING)


def vagrant() -> Iterator[Check]:
    """The requirements of two virtual machines: Vagrant, a hypervisor, both machines running."""
    if platform.system() != "Linux":
        yield Check("machine", False, platform.system(), USE_RECORDED)
        return
    program = shutil.which("vagrant")
    yield Check(
        "vagrant", program is not None, program or "not installed", install_line(machines_up.NEEDED)
    )
    if program is None:
        return
    hypervisor = next((name for name in HYPERVISORS if _find(name)), None)
    yield Check(
        "hypervisor",
        hypervisor is not None,
        hypervisor or f"none of {', '.join(HYPERVISORS)} is installed",
        install_line(machines_up.NEEDED),
    )
    try:
        machines = machines_up.states()
    except LabError as error:
        yield Check("machines", False, str(error), "vagrant status")
        return
    yield Check("machines", machines.up, machines.summary, machines_up.next_step(machines))
    if machines.up:
        yield reached()


def reached() -> Check:
    """Whether both machines can be reached by ssh."""
    try:
        config = machines_up.reach()
    except LabError as error:
        return Check("ssh", False, str(error), "vagrant reload")
    for name in machines_up.NAMES:
        argv = (
            "ssh",
            "-F",
            str(config),
            "-o",
            "ConnectTimeout=10",
            "-o",
            "LogLevel=ERROR",
            name,
            "true",
        )
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            printed = done.stderr.strip().splitlines()
            return Check(
                "ssh",
                False,
                f"{name} cannot be reached: {printed[-1] if printed else 'ssh printed nothing'}",
                f"vagrant reload {name}",
            )
    return Check("ssh", True, "both machines can be reached")


def recorded() -> Iterator[Check]:
    """The requirements of reading recorded runs; modules are located, not imported."""
    lacking = [name for name in READING_MODULES if find_spec(name) is None]
    yield Check(
        "modules",
        not lacking,
        "not installed: " + ", ".join(lacking) if lacking else ", ".join(READING_MODULES),
        "pip install .",
    )
    package = Path(__file__).resolve().parents[2]
    clone = package.parent / "data"
    folder = next(
        (place for place in (clone, package / "recorded") if (place / "SHA256SUMS").is_file()), None
    )
    yield Check(
        "studies",
        folder is not None,
        str(folder) if folder else f"no {clone}",
        "git checkout -- data",
    )


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{TOOL_PATH}")


def built_kernel(spec: str) -> Check:
    """Whether a kernel that matches `spec` has been built."""
    try:
        kernel = find(spec)
    except Missing:
        return Check("kernel", False, f"kernel {spec} is not built", f"labs kernel build {spec}")
    except LabError as error:
        return Check("kernel", False, str(error), "labs kernel list")
    return Check("kernel", True, f"Linux {kernel.source}, {kernel.sha256[:12]}, HZ {kernel.hz}")


def kit_in_use() -> Iterator[Check]:
    """The kit of virtual runs and whether it has what they start; before the first run, this
    machine's tools, of which that makes one."""
    try:
        kit = in_use()
        if kit is not None:
            kit.programs(name for name in DRIVING_TOOLS if name != "python3")
    except LabError as error:
        yield Check("kit", False, str(error), "labs kit make")
        return
    if kit is None:
        yield Check("kit", True, "none yet: the first run makes one of the tools that are here")
        yield from tools(DRIVING_TOOLS)
    else:
        text = f"{kit.digest[:12]}, with {len(kit.manifest.programs)} programs"
        yield Check("kit", True, text)


def tools(names: Iterable[str]) -> Iterator[Check]:
    """Whether the hosts' PATH has the programs, and those that only single options need."""
    for needed, group in ((True, tuple(names)), (False, tuple(OPTIONAL_TOOLS))):
        missing = [name for name in group if shutil.which(name, path=TOOL_PATH) is None]
        for name in missing:
            use = "" if needed else f"; needed by {OPTIONAL_TOOLS[name]}"
            yield Check(name, False, f"not in {TOOL_PATH}{use}", install_line(missing), needed)
        if not missing:
            yield Check("tools" if needed else "more tools", True, ", ".join(group), "", needed)


def boot_modes() -> Iterator[Check]:
    """Whether a kernel can run its guest's programs in each of its two modes; one suffices."""
    with ThreadPoolExecutor() as trials:
        traced = trials.submit(ptrace_refused)
        newest = seccomp_refused(True)
        others = newest and seccomp_refused(False)
    seccomp = (
        "the guest's programs can filter their system calls; faster, and the default. A program "
        "inside could act as you on this machine"
    )
    if newest and not others:
        seccomp += f". Not with Linux 7.2: {newest}"
    modes = {
        "seccomp": (
            others,
            seccomp,
            "run under a seccomp profile that allows seccomp(2), such as Docker's default",
        ),
        "ptrace": (
            traced.result(),
            "the kernel can trace the guest's programs; the default for labs in files of your own",
            RAISE_SCOPE
            if tracing_disabled()
            else "docker run --cap-add SYS_PTRACE ... (if this is a container)",
        ),
    }
    one_works = any(reason is None for reason, _, _ in modes.values())
    for name, (reason, works, step) in modes.items():
        yield Check(name, reason is None, reason or works, step, needed=not one_works)


def guest_memory(memory_mib: int) -> Check:
    """Whether a folder can hold the guest's memory."""
    try:
        folder = memory_folder(memory_mib)
    except LabError as error:
        return Check("memory", False, str(error), "export LABS_MEMORY_DIR=FOLDER")
    return Check("memory", True, f"{folder} has room for {memory_mib} MiB")


def process_limits(memory_mib: int) -> Check:
    """Whether the limits of this process (ulimit) allow a guest with this memory."""
    import resource  # noqa: PLC0415  not on every system

    mib = memory_mib + BEYOND_MEMORY_MIB
    for kind, flag, what, needed, unit in (
        (resource.RLIMIT_NOFILE, "-n", "open files", OPEN_FILES, 1),
        (resource.RLIMIT_FSIZE, "-f", "MiB per file", memory_mib + BEYOND_FILE_MIB, MIB),
        (resource.RLIMIT_AS, "-v", "MiB of address space", mib, MIB),
    ):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY and limit < needed * unit:
            text = f"`ulimit {flag}` allows {limit // unit} {what}, and a run needs {needed}"
            raised = str(needed) if unit == 1 else "unlimited"
            return Check("limits", False, text, f"ulimit {flag} {raised} (in a new shell)")
    return Check("limits", True, "ulimit allows enough files and memory")


def part_of_the_link(name: str) -> Check:
    """Whether this machine's kernel supports one part of the link; creates it in a namespace."""
    module, trial = LINK_TRIALS[name]
    failed = _in_a_namespace(trial)
    release = platform.release()
    if failed is None:
        return Check(name, True, f"this kernel ({release}) has {name}")
    here = any(Path("/lib/modules", release).glob(f"kernel/**/{module}.ko*"))
    return Check(
        name,
        False,
        f"this kernel ({release}) lacks {name} ({failed.removesuffix('.')})",
        f"modprobe {module}" if here else USE_VIRTUAL,
    )


def _in_a_namespace(command: str) -> str | None:
    """Run a shell command in a temporary network namespace; None, or the last line of stderr."""
    argv = ("unshare", "--net", "sh", "-c", command)
    path = {**os.environ, "PATH": TOOL_PATH, "LC_ALL": "C"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, env=path)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    lines = done.stderr.strip().splitlines()
    return None if done.returncode == 0 else (lines[-1] if lines else f"exit {done.returncode}")
