"""The conditions of the lab `windows`, and the lines that arrange their paths."""

from __future__ import annotations

from labs.catalog import find
from labs.drive.preview import preview
from labs.experiments.windows import conditions as windows
from labs.experiments.windows import paths
from labs.experiments.windows.conditions import Parameters as Windows
from labs.experiments.windows.settings import Settings
from labs.guest.condition import Condition, read_settings


def every(**given: object) -> dict[str, Condition]:
    listed = find("windows").conditions(Windows(size="full", **given))  # type: ignore[arg-type]
    return {condition.name: condition for condition in listed}


def test_conditions_by_size_and_testbed() -> None:
    small = [condition.name for condition in windows.conditions(Windows())]
    assert set(small) < set(every())
    on_machines = [condition.name for condition in windows.conditions(Windows(testbed="vagrant"))]
    assert on_machines == ["article-scale0", "article-scale1"]


def test_conditions_on_machines_have_no_router() -> None:
    conditions = every(testbed="vagrant").values()
    assert {condition.settings["path"] for condition in conditions} == {"direct", "loopback"}
    assert {condition.link.shaped_at for condition in conditions} == {"server"}


def test_conditions_differ_as_their_names_say() -> None:
    conditions = every()
    article: dict[str, object] = dict(conditions["article-scale1"].settings)
    hosts: dict[str, object] = dict(conditions["hosts-scale1"].settings)
    assert hosts == {**article, "path": "router"}
    assert (article["rcvbuf_kib"], article["mss_bytes"], article["set_rcvbuf"]) == (
        32,
        1024,
        "listen",
    )
    changes: dict[str, tuple[dict[str, object], dict[str, object]]] = {
        "article-scale0": (article, {"adv_win_scale": 0}),
        "article-1m": (article, {"rcvbuf_kib": 1024}),
        "automatic": (article, {"rcvbuf_kib": 0}),
        "unsampled": (article, {"adv_win_scale": 0, "sampled": False}),
        "quickack": (article, {"quickack": True}),
        "initrwnd": (article, {"rcvbuf_kib": 1024, "initrwnd": 1000}),
        "initcwnd-10": (article, {"initcwnd": 10}),
        "article-scale0-4x": (article, {"adv_win_scale": 0, "earlier": 3, "duration_s": 6.25}),
        "automatic-1448": (article, {"rcvbuf_kib": 0, "mss_bytes": 1448}),
        "chunks-spread": (article, {"fill": "spread", "quickack": True}),
        "messages": (article, {"fill": "messages", "reader": "slow"}),
        "rcvbuf-1m": (hosts, {"rcvbuf_kib": 1024, "set_rcvbuf": "accept"}),
        "listen-16k": (hosts, {"rcvbuf_kib": 16}),
        "scale-minus2": (hosts, {"adv_win_scale": -2}),
        "reader-late": (hosts, {"reader": "late"}),
        "mss-536": (hosts, {"mss_bytes": 536}),
    }
    for name, (base, change) in changes.items():
        assert dict(conditions[name].settings) == {**base, **change}, name


def test_condition_of_the_patched_kernel_is_selected_only_by_name() -> None:
    assert windows.PATCHED not in every()
    (condition,) = every(only=windows.PATCHED).values()
    assert condition.settings == every()["initrwnd"].settings


def test_chunks_are_those_of_the_articles_program() -> None:
    """run.sh: chunk+512. window.py: at most ten in flight, and TCP_QUICKACK at each write."""
    writes = read_settings(Settings, every()["chunks"].settings).writes
    assert (writes.write_bytes, writes.in_flight, writes.quickack) == (512, 10, True)


def test_conditions_raise_rmem_max_only_above_its_default() -> None:
    raised = {
        name
        for name, condition in every().items()
        if "net.core.rmem_max" in condition.sysctls["server"]
    }
    assert raised == {
        *("article-1m", "hosts-1m", "initrwnd"),
        *(f"{how}-{size}" for how in ("rcvbuf", "listen") for size in ("256k", "512k", "1m", "2m")),
    }


def test_conditions_have_a_group() -> None:
    counts: dict[str, int] = {}
    for condition in every().values():
        counts[condition.group] = counts.get(condition.group, 0) + 1
    assert list(counts) == [group.name for group in windows.GROUPS]
    assert (counts["article"], counts["buffers"], counts["scales"]) == (8, 8, 6)


def test_lines_of_loopback_are_the_articles_and_those_that_space_arrivals() -> None:
    commands = [" ".join(argv) for host, argv in windows.lines(every()["article-scale0"])]
    assert commands[:5] == [
        "ethtool -K lo tso off gso off gro off",
        "ip route change local 127.0.0.0/8 dev lo initcwnd 10000",
        "ip link add arrivals type ifb",
        "ip link set arrivals up",
        "tc qdisc add dev lo root netem limit 100000 delay 100ms",
    ]
    assert commands[5] == "tc qdisc add dev arrivals root netem limit 100000 rate 1000mbit 0 4000"
    assert commands[7].endswith("matchall action mirred egress redirect dev arrivals")
    assert {host for host, _ in windows.lines(every()["article-scale0"])} == {"server"}


def test_lines_of_two_hosts_have_the_routes_options() -> None:
    conditions = every()
    scale1 = [(host, " ".join(argv)) for host, argv in windows.lines(conditions["hosts-scale1"])]
    assert scale1 == [
        (
            "router",
            "tc qdisc add dev eth0 root netem limit 100000 delay 100ms rate 1000mbit 0 4000",
        ),
        ("router", "tc qdisc replace dev eth1 root netem delay 100ms"),
        ("client", "ip route add 10.77.1.1/32 via 10.77.2.254 dev eth0 initcwnd 10000"),
    ]
    shown = preview(conditions["hosts-scale1"], windows.lines(conditions["hosts-scale1"]))
    assert "tc qdisc add dev eth1 root handle 10: netem delay 200ms" in [
        " ".join(command.argv) for command in shown
    ]


def test_lines_of_loopback_have_the_receivers_options() -> None:
    conditions = every()
    for name, options in (("quickack", "quickack 1"), ("initrwnd", "initrwnd 1000")):
        route = [" ".join(argv) for _, argv in windows.lines(conditions[name])][1]
        assert route.endswith(f"dev lo initcwnd 10000 {options}")


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
