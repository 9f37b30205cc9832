"""One run from start to end: set up the testbed, check the link, measure, write run.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from labs.errors import Missing
from labs.guest import host_load as machines
from labs.guest import tc
from labs.guest.bench import MACHINES, Bench
from labs.guest.condition import Condition, from_json
from labs.guest.host_load import apart
from labs.guest.outcome import Moment
from labs.guest.testbed.contract import Host, Testbed
from labs.guest.testbed.link import LinkReport, checked

# Set in every run: no metrics of earlier connections, and a named congestion control.
ALWAYS = {"net.ipv4.tcp_no_metrics_save": "1", "net.ipv4.tcp_congestion_control": "cubic"}

# The difference between the clocks of two machines, before and after the measurement.
CLOCKS = "clocks.json"

# The sysctls recorded of each host; those that a kernel or namespace lacks are omitted.
RECORDED_SYSCTLS = tuple(
    [
        f"net.core.{name}"
        for name in (
            "rmem_default",
            "rmem_max",
            "wmem_default",
            "wmem_max",
            "default_qdisc",
            "netdev_max_backlog",
            "optmem_max",
        )
    ]
    + [
        f"net.ipv4.{name}"
        for name in (
            "ip_forward",
            "tcp_adv_win_scale",
            "tcp_app_win",
            "tcp_autocorking",
            "tcp_congestion_control",
            "tcp_available_congestion_control",
            "tcp_ecn",
            "tcp_limit_output_bytes",
            "tcp_mem",
            "tcp_min_tso_segs",
            "tcp_moderate_rcvbuf",
            "tcp_no_metrics_save",
            "tcp_notsent_lowat",
            "tcp_pacing_ca_ratio",
            "tcp_pacing_ss_ratio",
            "tcp_pingpong_thresh",
            "tcp_rmem",
            "tcp_sack",
            "tcp_shrink_window",
            "tcp_slow_start_after_idle",
            "tcp_timestamps",
            "tcp_tso_win_divisor",
            "tcp_window_scaling",
            "tcp_wmem",
        )
    ]
)


class Experiment(Protocol):
    """A lab's experiment module, as a run uses it."""

    def measure(self, bench: Bench, condition: Condition) -> None:
        """Perform the experiment and store its files in the run folder."""


def sysctls(host: Host) -> dict[str, str]:
    """The recorded sysctls of a host."""
    found = {}
    for name in RECORDED_SYSCTLS:
        try:
            found[name] = host.sysctl(name)
        except Missing:
            continue
    return found


def loss(before: str, after: str) -> tuple[int, int]:
    """The packets that reached netem during a run and those it dropped, from its counters."""

    def netem(text: str) -> tuple[int, int]:
        rows = [row for row in tc.queues(text) if row.kind == "netem"]
        return sum(row.sent_packets for row in rows), sum(row.dropped for row in rows)

    (sent_0, dropped_0), (sent_1, dropped_1) = netem(before), netem(after)
    dropped = dropped_1 - dropped_0
    return sent_1 - sent_0 + dropped, dropped


def _with_loss(link: LinkReport, counted: Path) -> LinkReport:
    """The report with the loss that netem counted, from the stored files of the shaping host."""
    before, after = ((counted / f"tc-{when}.txt").read_text() for when in ("before", "after"))
    offered, dropped = loss(before, after)
    lost_pct = round(100 * dropped / offered, 4) if offered else None
    return checked(link.asked, replace(link.measured, loss_pct=lost_pct), offered)


def _about(order: Mapping[str, Any], bench: Bench) -> dict[str, Any]:
    """The part of run.json that comes from the order and the bench."""
    inputs = order["inputs"]
    return {
        "schema": inputs["schema"],
        "lab": inputs["lab"],
        "condition": bench.condition.name,
        "key": order["key"],
        "inputs": inputs,
        "tools": order["versions"],
        "commands": [
            {
                "at_ns": line.at_ns,
                "host": line.host,
                "argv": list(line.argv),
                "exit": line.exit_code,
            }
            for line in bench.testbed.log
        ],
        "buffers": [asdict(buffer) for buffer in bench.buffers],
        "marks": [asdict(mark) for mark in bench.marks],
        "ended": bench.ended,
    }


def drive(
    order: Mapping[str, Any],
    experiment: Experiment,
    testbed: Testbed,
    folder: Path,
    say: Callable[[str], None],
) -> None:
    """Perform one run in `folder`; what it writes depends only on the order.

    The order has `inputs` and their `key`, the kernel's `hz` (None: not known), and the line that
    each tool prints about its version (`versions`).
    """
    inputs = order["inputs"]
    condition = from_json(inputs["condition"])
    say("setting up the testbed")
    with testbed:
        for host in (testbed.server, testbed.client):
            for name, value in {**ALWAYS, **condition.sysctls.get(host.name, {})}.items():
                host.set_sysctl(name, value)
        before = {name: sysctls(host) for name, host in testbed.hosts().items()}
        bench = Bench(testbed, condition, folder, say)
        say("checking the link")
        link = bench.check_link(condition.link)
        bench.count("before")
        say(f"measuring {condition.name}")
        real_time = inputs["testbed"] != "virtual"
        machines_before = machines.moments(testbed) if real_time else {}
        own_clocks = testbed.kind in MACHINES
        clocks = [apart(testbed.server, testbed.client)] if own_clocks else []
        bench.marks.append(Moment(testbed.server.clock_ns(), "start"))
        experiment.measure(bench, condition)
        bench.marks.append(Moment(testbed.server.clock_ns(), "end"))
        if real_time:
            machines.keep(testbed, machines_before, folder)
        if own_clocks:
            clocks.append(apart(testbed.server, testbed.client))
            said = dict(zip(("before", "after"), map(asdict, clocks), strict=True))
            (folder / CLOCKS).write_text(json.dumps(said, indent=1) + "\n")
        bench.count("after")
        if condition.link.loss_pct:
            link = _with_loss(link, folder / (testbed.router or testbed.server).name)
        after = {name: sysctls(host) for name, host in testbed.hosts().items()}
        release = testbed.server.sysctl("kernel.osrelease")
        record = {
            **_about(order, bench),
            "kernel": {"release": release, "hz": order["hz"]},
            "link": link.as_json(),
            "sysctls": {name: {"before": before[name], "after": after[name]} for name in before},
        }
    (folder / "run.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    say("done")
