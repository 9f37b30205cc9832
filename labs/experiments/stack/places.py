"""The CPUs of a run: those of server, load, interrupts of the device, and receive processing.

Server and load are pinned as processes. The CPU of an interrupt is a setting of the machine, and
devices of network namespaces have none. RPS belongs to the device of the namespace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labs.experiments.stack.knobs import OWN_SYSFS, Knob, reading, refusal, writing
from labs.experiments.stack.settings import APART, FREE, SAME, Settings
from labs.guest.testbed.contract import Host

# Virtio devices have their interrupts one folder above their own.
INTERRUPTS = (
    'for folder in device/msi_irqs device/../msi_irqs; do cd "/sys/class/net/$1/$folder" '
    "2>/dev/null && ls && break; done"
)


@dataclass(frozen=True)
class Places:
    """The CPUs of server threads and load; empty: not pinned."""

    server: tuple[int, ...]
    load: tuple[int, ...]


def allowed_cpus(host: Host) -> tuple[int, ...]:
    """The CPUs that processes of a host may use (Cpus_allowed_list of /proc/self/status)."""
    status = host.read("/proc/self/status").decode("ascii", "replace")
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    cpus: list[int] = []
    for span in found.group(1).split(",") if found else ():
        first, _, last = span.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)


def places(
    settings: Settings, cpus: Sequence[int], of_client: Sequence[int] | None = None
) -> Places:
    """The CPUs of server and load. `apart` gives each thread of the server one CPU from the first
    on, and the load the last one, which a server with as many threads as CPUs shares. A client that
    is a machine of its own has the CPUs `of_client`, of which the load gets the last one."""
    if settings.pinning == FREE or not cpus:
        return Places((), ())
    if of_client:
        return Places(tuple(cpus[: settings.threads]), (of_client[-1],))
    if settings.pinning == SAME:
        return Places((cpus[0],), (cpus[0],))
    return Places(tuple(cpus[: settings.threads]), (cpus[-1],))


def pinning(
    settings: Settings, cpus: Sequence[int], of_client: Sequence[int] | None = None
) -> Knob:
    """Whether the CPUs allow the requested places."""
    found = places(settings, cpus, of_client)
    told = f"server on {_list(found.server)}, load on {_list(found.load)}"
    needed = settings.threads + (0 if of_client else 1)
    why = ""
    if of_client and settings.pinning == SAME:
        why = "server and load are on two machines"
    elif settings.pinning == APART and len(cpus) < needed:
        why = f"CPUs: {len(cpus)}, needed: {needed}"
    return Knob("pinning", settings.pinning, told, not why, why)


def _list(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) or "any"


def set_places(server: Host, settings: Settings, cpus: Sequence[int]) -> Iterator[Knob]:
    """Set the CPUs of the device's interrupts and of receive processing, as far as requested."""
    if settings.interrupts != FREE:
        yield _interrupts(server, settings, cpus)
    if settings.rps == SAME:
        yield _rps(server, settings, cpus)


def interrupts_of(host: Host) -> tuple[str, ...]:
    """The numbers of the interrupts of the host's device; none for a device without a driver of
    hardware, such as a veth."""
    script = f"{OWN_SYSFS} && {INTERRUPTS}"
    argv = ("unshare", "--mount", "sh", "-c", script, "sh", host.device)
    return tuple(host.run(argv, check=False).text.split())


def _interrupts(server: Host, settings: Settings, cpus: Sequence[int]) -> Knob:
    """Direct the interrupts of the device to the first CPU of the server, or away from it."""
    own = cpus[0] if settings.interrupts == SAME else cpus[-1]
    requested = f"{settings.interrupts} ({_list((own,))})"
    numbers = interrupts_of(server)
    if not numbers:
        why = f"{server.device} has no interrupts of its own"
        return Knob("interrupts", requested, "unknown", False, why)
    if settings.interrupts == APART and own in places(settings, cpus).server:
        why = f"CPUs: {len(cpus)}, needed: {settings.threads + 1}"
        return Knob("interrupts", requested, "unknown", False, why)
    paths = [f"/proc/irq/{number}/smp_affinity_list" for number in numbers]
    said = [refusal(server, writing(path, str(own))) for path in paths]
    found = {server.read(path).decode("ascii", "replace").strip() for path in paths}
    because = next((one for one in said if one), "")
    told = f"{settings.interrupts} ({' '.join(sorted(found))})"
    return Knob("interrupts", requested, told, found == {str(own)}, because)


def _rps(server: Host, settings: Settings, cpus: Sequence[int]) -> Knob:
    """Let the first CPU of the server process received packets (RPS of the first queue)."""
    mask = f"{1 << cpus[0] % 32:x}" + ",00000000" * (cpus[0] // 32)
    path = f"/sys/class/net/{server.device}/queues/rx-0/rps_cpus"
    because = refusal(server, writing(path, mask))
    found = server.run(reading(path), check=False).text.strip().lstrip("0,") or "unknown"
    return Knob("rps", mask, found, found == mask, because)
