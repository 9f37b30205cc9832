"""The conditions of the lab `windows`, and the lines that arrange their paths."""

from __future__ import annotations

from labs.catalog import find
from labs.experiments.windows import conditions as windows
from labs.experiments.windows import paths
from labs.experiments.windows.conditions import Parameters as Windows
from labs.experiments.windows.settings import Settings
from labs.guest.condition import Condition, read_settings


def every(**given: object) -> dict[str, Condition]:
    listed = find("windows").conditions(Windows(size="full", **given))  # type: ignore[arg-type]
    return {condition.name: condition for condition in listed}


def test_conditions_on_machines_have_no_router() -> None:
    conditions = every(testbed="vagrant").values()
    assert {condition.settings["path"] for condition in conditions} == {"direct", "loopback"}
    assert {condition.link.shaped_at for condition in conditions} == {"server"}


def test_condition_of_the_patched_kernel_is_selected_only_by_name() -> None:
    assert windows.PATCHED not in every()
    (condition,) = every(only=windows.PATCHED).values()
    assert condition.settings == every()["initrwnd"].settings


def test_chunks_are_those_of_the_articles_program() -> None:
    """run.sh: chunk+512. window.py: at most ten in flight, and TCP_QUICKACK at each write."""
    writes = read_settings(Settings, every()["chunks"].settings).writes
    assert (writes.write_bytes, writes.in_flight, writes.quickack) == (512, 10, True)


def test_lines_of_machines_are_undone() -> None:
    """Machines outlive a run: their routes and offloads are as before."""
    (condition,) = windows.conditions(Windows(testbed="vagrant", only="hosts-scale1"))
    settings = read_settings(Settings, condition.settings)
    ends = paths.End("192.0.2.1", "lab0"), paths.End("192.0.2.2", "lab0")
    done = [(host, " ".join(argv)) for host, argv in paths.undoing(settings, *ends)]
    assert done == [
        ("client", "ip route del 192.0.2.1/32 dev lab0 initcwnd 10000"),
        ("server", "ethtool -K lab0 tso on gso on gro on"),
        ("client", "ethtool -K lab0 tso on gso on gro on"),
    ]
    settings = read_settings(Settings, every()["article-scale0"].settings)
    done = [(host, " ".join(argv)) for host, argv in paths.undoing(settings, *ends)]
    assert done == [
        ("server", "tc qdisc del dev lo ingress"),
        ("server", "tc qdisc del dev lo root"),
        ("server", "ip link del arrivals"),
        ("server", "ip route change local 127.0.0.0/8 dev lo"),
        ("server", "ethtool -K lo tso on gso on gro on"),
    ]
