"""Netfilter: the hooks in the path of every packet, and what is attached to them."""

from __future__ import annotations

from labs.read.audit.cpu import OFF, switch
from labs.read.audit.items import Finding, Rule, wants
from labs.read.audit.raw import Raw, Unknown

CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack"
RULESET = ("nft", "--stateless", "list", "ruleset")
HOOKS = ("nft", "list", "hooks")


def modules(raw: Raw) -> Finding:
    """The modules of netfilter that are loaded; what is built in is no module."""
    try:
        lines = raw.text("/proc/modules").splitlines()
    except Unknown:
        raise Unknown("this kernel has no modules; what it has is built in") from None
    names = [line.split()[0] for line in lines if line.strip()]
    return Finding(", ".join(sorted(names)) or "none", bool(names), "none")


def ruleset(raw: Raw) -> list[str]:
    """What nft listed. A kernel in which nf_tables is not loaded has no rules of it."""
    if RULESET not in raw.outputs:
        if raw.option("NF_TABLES") == "y":
            raise Unknown("nft was not started")
        return []
    return raw.output(*RULESET).splitlines()


def tables(raw: Raw) -> Finding:
    names = [
        line.removesuffix(" {").removeprefix("table ")
        for line in ruleset(raw)
        if line.startswith("table ")
    ]
    return wants(", ".join(names) or "none", "none")


def chains(raw: Raw) -> Finding:
    """Chains with a hook: each is called for every packet that passes there, idle or not."""
    return wants(sum(line.startswith("type ") for line in ruleset(raw)), 0)


def rules(raw: Raw) -> Finding:
    counts = [line.split()[1] for line in ruleset(raw) if line.startswith("rules ")]
    return wants(sum(int(count) for count in counts if count.isdigit()), 0)


def hooks(raw: Raw) -> Finding:
    if HOOKS not in raw.outputs:
        raise Unknown(
            "this kernel does not list its hooks (CONFIG_NETFILTER_NETLINK_HOOK), or the module "
            "for it is not loaded"
        )
    lines = raw.output(*HOOKS).splitlines()
    return wants(sum(line[:1] in "+-0123456789" and line != "" for line in lines), 0)


def old_tables(raw: Raw) -> Finding:
    names = []
    for version, path in (("ip", "ip_tables_names"), ("ip6", "ip6_tables_names")):
        try:
            listed = raw.text(f"/proc/net/{path}").split()
        except Unknown as error:
            if "only root" in str(error):
                raise
            continue
        names += [f"{version} {name}" for name in listed]
    return wants(", ".join(names) or "none", "none")


def tracked(raw: Raw) -> Finding:
    count = raw.number(f"{CONNTRACK}_count")
    return Finding(count, count > 0, "0")


RULES: dict[str, Rule] = {
    "netfilter.built": lambda raw: wants("yes" if raw.option("NETFILTER") == "y" else "no", "no"),
    "netfilter.modules": modules,
    "netfilter.tables": tables,
    "netfilter.chains": chains,
    "netfilter.rules": rules,
    "netfilter.hooks": hooks,
    "netfilter.legacy_tables": old_tables,
    "netfilter.bridge": lambda raw: wants(
        switch(raw, "/proc/sys/net/bridge/bridge-nf-call-iptables"), OFF
    ),
    "conntrack.tracked": tracked,
    "conntrack.most": lambda raw: raw.number(f"{CONNTRACK}_max"),
    "conntrack.buckets": lambda raw: raw.number(f"{CONNTRACK}_buckets"),
    "conntrack.checksum": lambda raw: switch(raw, f"{CONNTRACK}_checksum"),
}
