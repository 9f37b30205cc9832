"""The settings of the device and of netfilter in a run: set, then read back.

On namespaces all of them belong to the server's network namespace, so they end with it. A killed
run leaves its namespaces to the next one, which removes them (`labs/guest/testbed/namespaces.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labs.errors import LabError
from labs.experiments.stack.settings import CONNTRACK, DEFAULT, GRO, IDLE, NONE, Settings
from labs.guest.condition import Condition, read_settings
from labs.guest.testbed.contract import Host
from labs.guest.testbed.link import DEVICE, Argv

TABLE = "labs"
HOOKS = ("prerouting", "input", "output", "postrouting")
FIRST_PORT = 20_000
ALL_OFFLOADS = ("tso", "gso", "gro", "sg")
DEFERRED = {"napi_defer_hard_irqs": "10", "gro_flush_timeout": "20000"}
"""The number of polls without a packet, and the nanoseconds between polls: the values of the
commit that added the first of them (6f8b12d661d0)."""
OWN_SYSFS = (
    'told=$(mount -t sysfs sysfs /sys 2>&1) || case "$told" in *"already mounted"*) ;; '
    '*) echo "$told" >&2; false ;; esac'
)
"""A /sys shows the devices of the network namespace in which it was mounted. On a machine the
kernel refuses a second mount of the same /sys."""


@dataclass(frozen=True)
class Knob:
    """A setting: what was requested, what the machine says it is, and whether it was applied here
    (`effective`). `because` says why not."""

    factor: str
    requested: str
    found: str
    effective: bool
    because: str = ""


def set_device(
    server: Host, client: Host, settings: Settings, *, machines: bool = False
) -> Iterator[Knob]:
    """Set offloads, queues and interrupt delay of the server's device. Namespaces start with one
    queue, `machines` with as many as they have CPUs."""
    if settings.offloads != DEFAULT:
        yield _offloads(server, client, settings.offloads)
    if machines or settings.queues > 1:
        yield _queues(server, settings.queues)
    if settings.rx_usecs is not None:
        yield _coalescing(server, settings.rx_usecs)
    if settings.deferred_irqs:
        yield _deferral(server)


def _offloads(server: Host, client: Host, which: str) -> Knob:
    """Offloads off at both ends; `gro` leaves out segmentation at the client and receives by GRO,
    with which veth uses NAPI (drivers/net/veth.c, veth_skb_is_eligible_for_gro)."""
    wanted, of_client = _wanted(which)
    refused = refusal(server, _features(server.device, wanted))
    refused = refused or refusal(client, _features(client.device, of_client))
    text = server.run(("ethtool", "-k", server.device)).text
    names = {"tso": "tcp-segmentation-offload", "gso": "generic-segmentation-offload"}
    names |= {"gro": "generic-receive-offload", "sg": "scatter-gather"}
    found = {short: _value(text, names[short]) for short in wanted}
    return Knob("offloads", _words(wanted), _words(found), found == wanted, refused)


def _wanted(which: str) -> tuple[dict[str, str], dict[str, str]]:
    """The offloads of server and client, and what they are to be."""
    if which == GRO:
        return {"gro": "on"}, {"tso": "off", "gso": "off"}
    return (dict.fromkeys(ALL_OFFLOADS, "off"),) * 2


def _features(device: str, wanted: dict[str, str]) -> Argv:
    return ("ethtool", "-K", device, *(word for pair in wanted.items() for word in pair))


def _queues(server: Host, queues: int) -> Knob:
    """Set the number of queues, if the device has another one."""
    refused, found = "", _queues_of(server)
    if found != queues:
        text = server.run(("ethtool", "-l", server.device), check=False).text
        combined = _value(text, "Combined").isdigit()  # n/a: such as a veth
        refused = refusal(server, _channels(server.device, queues, combined))
        found = _queues_of(server)
    equal = found == queues
    return Knob("queues", str(queues), str(found), equal, "" if equal else refused)


def _queues_of(host: Host) -> int:
    """The number of receive queues of the host's device."""
    done = host.run(reading(f"/sys/class/net/{host.device}/queues", "ls"), check=False)
    return sum(name.startswith("rx-") for name in done.text.split())


def _channels(device: str, queues: int, combined: bool = False) -> Argv:
    if combined:
        return ("ethtool", "-L", device, "combined", str(queues))
    return ("ethtool", "-L", device, "rx", str(queues), "tx", str(queues))


def _delay(device: str, rx_usecs: int) -> Argv:
    return ("ethtool", "-C", device, "rx-usecs", str(rx_usecs))


def lines(condition: Condition) -> tuple[tuple[str, Argv], ...]:
    """The commands that a condition adds to those of its link: host and words. Those that name
    CPUs depend on the machine and are not among them (`places.py`)."""
    settings = read_settings(Settings, condition.settings)
    found: list[tuple[str, Argv]] = []
    if settings.offloads != DEFAULT:
        of_server, of_client = _wanted(settings.offloads)
        found.append(("server", _features(DEVICE, of_server)))
        found.append(("client", _features(DEVICE, of_client)))
    if settings.queues > 1:
        found.append(("server", _channels(DEVICE, settings.queues)))
    if settings.rx_usecs is not None:
        found.append(("server", _delay(DEVICE, settings.rx_usecs)))
    if settings.deferred_irqs:
        found += [("server", writing(path, value)) for path, value in _deferred(DEVICE).items()]
    if settings.rules != NONE:
        found.append(("server", ("nft", ruleset(settings.rules))))
    return tuple(found)


def _coalescing(server: Host, rx_usecs: int) -> Knob:
    refused = refusal(server, _delay(server.device, rx_usecs))
    text = server.run(("ethtool", "-c", server.device), check=False).text
    found = _value(text, "rx-usecs")
    equal = found == str(rx_usecs)
    because = refused or ("" if equal else f"the device has rx-usecs {found} instead")
    return Knob("rx_usecs", str(rx_usecs), found, equal and not refused, because)


def _deferred(device: str) -> dict[str, str]:
    """The files that defer the interrupts of a device, and what they are to be."""
    return {f"/sys/class/net/{device}/{name}": value for name, value in DEFERRED.items()}


def _deferral(server: Host) -> Knob:
    """Let a device whose packets were just processed be polled by a timer, without interrupts,
    until several polls found nothing (net/core/dev.c, napi_complete_done)."""
    wanted = _deferred(server.device)
    refused = [refusal(server, writing(path, value)) for path, value in wanted.items()]
    found = [server.run(reading(path), check=False).text.strip() for path in wanted]
    said = dict(zip(DEFERRED, (one or "unknown" for one in found), strict=True))
    because = next((one for one in refused if one), "")
    return Knob("deferred_irqs", _words(DEFERRED), _words(said), said == DEFERRED, because)


def writing(path: str, value: str) -> Argv:
    """The command that writes a file of /sys in the host's network namespace."""
    return ("unshare", "--mount", "sh", "-c", f'{OWN_SYSFS} && echo "$2" >"$1"', "sh", path, value)


def reading(path: str, tool: str = "cat") -> Argv:
    """The command that prints a file of /sys in the host's network namespace."""
    return ("unshare", "--mount", "sh", "-c", f'{OWN_SYSFS} && {tool} "$1"', "sh", path)


def refusal(host: Host, argv: Sequence[str]) -> str:
    """Run a command; what it says if it fails, on one line, or nothing."""
    done = host.run(argv, check=False)
    said = (done.stderr or done.stdout).decode("utf-8", "replace").split("\n")
    return said[0].strip() if done.exit_code else ""


def _value(text: str, name: str) -> str:
    """The value of a line `name: value` of ethtool; "unknown" if there is none."""
    found = re.search(rf"^\s*{re.escape(name)}:\s*(\S+)", text, re.MULTILINE)
    return found.group(1) if found else "unknown"


def _words(values: dict[str, str]) -> str:
    return " ".join(f"{name} {value}" for name, value in values.items())


def set_rules(server: Host, rules: str) -> Iterator[Knob]:
    """Load the nftables rules of the server."""
    if rules == NONE:
        return
    try:
        server.run(("nft", ruleset(rules)))
        text = server.run(("nft", "list", "ruleset")).text
    except LabError as error:
        yield Knob("rules", rules, "unknown", False, str(error))
        return
    chains, counted = text.count("type filter hook"), text.count("tcp dport")
    tracked = "ct state" in text
    found = CONNTRACK if tracked else str(counted) if counted else IDLE if chains else NONE
    yield Knob("rules", rules, found, found == rules)


def ruleset(rules: str) -> str:
    """The command of nft: a base chain at each hook, and in the chain `input` rules that match no
    packet of this lab, or those of a stateful firewall."""
    lines = [f"table inet {TABLE} {{"]
    for hook in HOOKS:
        body = _input_rules(rules) if hook == "input" else []
        lines += [f"  chain {hook} {{ type filter hook {hook} priority 0; policy accept;"]
        lines += [f"    {rule}" for rule in body] + ["  }"]
    return "\n".join([*lines, "}"]) + "\n"


def _input_rules(rules: str) -> list[str]:
    if rules == IDLE:
        return []
    if rules == CONNTRACK:
        return ["ct state established,related accept", "ct state new accept"]
    return [f"tcp dport {FIRST_PORT + number} drop" for number in range(int(rules))]
