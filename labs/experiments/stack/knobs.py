"""The settings of device, netfilter and CPUs of a run: set, then read back.

All of them belong to the server's network namespace or to processes of the run, so they end with
it. A killed run leaves its namespaces to the next one, which removes them
(`labs/drive/testbed/namespaces.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labs.drive.condition import Condition, read_settings
from labs.drive.testbed.contract import Host
from labs.drive.testbed.link import DEVICE, Argv
from labs.errors import LabError
from labs.experiments.stack.settings import (
    APART,
    CONNTRACK,
    DEFAULT,
    GRO,
    IDLE,
    NONE,
    SAME,
    Settings,
)

TABLE = "labs"
HOOKS = ("prerouting", "input", "output", "postrouting")
FIRST_PORT = 20_000
ALL_OFFLOADS = ("tso", "gso", "gro", "sg")


@dataclass(frozen=True)
class Knob:
    """A setting: what was requested, what the machine says it is, and whether it has an effect
    here. `because` says why not."""

    factor: str
    requested: str
    found: str
    effective: bool
    because: str = ""


def set_device(server: Host, client: Host, settings: Settings) -> Iterator[Knob]:
    """Set offloads, queues and interrupt delay of the server's device."""
    if settings.offloads != DEFAULT:
        yield _offloads(server, client, settings.offloads)
    if settings.queues:
        yield _queues(server, settings.queues)
    if settings.rx_usecs is not None:
        yield _coalescing(server, settings.rx_usecs)


def _offloads(server: Host, client: Host, which: str) -> Knob:
    """Offloads off at both ends; `gro` leaves out segmentation at the client and receives by GRO,
    with which veth uses NAPI (drivers/net/veth.c, veth_skb_is_eligible_for_gro)."""
    wanted, of_client = _wanted(which)
    refused = _refused(server, _features(server.device, wanted))
    refused = refused or _refused(client, _features(client.device, of_client))
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
    refused = _refused(server, _channels(server.device, queues))
    text = server.run(("ethtool", "-l", server.device), check=False).text
    found = _value(text.partition("Current hardware settings")[2], "RX")
    return Knob("queues", str(queues), found, found == str(queues), refused)


def _channels(device: str, queues: int) -> Argv:
    return ("ethtool", "-L", device, "rx", str(queues), "tx", str(queues))


def _delay(device: str, rx_usecs: int) -> Argv:
    return ("ethtool", "-C", device, "rx-usecs", str(rx_usecs))


def lines(condition: Condition) -> tuple[tuple[str, Argv], ...]:
    """The commands that a condition adds to those of its link: host and words."""
    settings = read_settings(Settings, condition.settings)
    found: list[tuple[str, Argv]] = []
    if settings.offloads != DEFAULT:
        of_server, of_client = _wanted(settings.offloads)
        found.append(("server", _features(DEVICE, of_server)))
        found.append(("client", _features(DEVICE, of_client)))
    if settings.queues:
        found.append(("server", _channels(DEVICE, settings.queues)))
    if settings.rx_usecs is not None:
        found.append(("server", _delay(DEVICE, settings.rx_usecs)))
    if settings.rules != NONE:
        found.append(("server", ("nft", ruleset(settings.rules))))
    return tuple(found)


def _coalescing(server: Host, rx_usecs: int) -> Knob:
    refused = _refused(server, _delay(server.device, rx_usecs))
    text = server.run(("ethtool", "-c", server.device), check=False).text
    found = _value(text, "rx-usecs")
    return Knob("rx_usecs", str(rx_usecs), found, found == str(rx_usecs), refused)


def _refused(host: Host, argv: Sequence[str]) -> str:
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


def places(settings: Settings, cpus: Sequence[int]) -> Places:
    """The CPUs of server and load. `apart` gives each thread of the server one CPU from the first
    on, and the load the last one, which a server with as many threads as CPUs shares."""
    if settings.pinning == APART and cpus:
        return Places(tuple(cpus[: settings.threads]), (cpus[-1],))
    if settings.pinning == SAME and cpus:
        return Places((cpus[0],), (cpus[0],))
    return Places((), ())


def pinning(settings: Settings, cpus: Sequence[int]) -> Knob:
    """Whether the CPUs allow the requested places."""
    found = places(settings, cpus)
    told = f"server on {_list(found.server)}, load on {_list(found.load)}"
    enough = settings.pinning != APART or len(cpus) > settings.threads
    why = "" if enough else f"CPUs: {len(cpus)}, needed: {settings.threads + 1}"
    return Knob("pinning", settings.pinning, told, enough, why)


def _list(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) or "any"
