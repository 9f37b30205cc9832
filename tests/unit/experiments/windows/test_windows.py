"""The lab `windows`: its conditions, results and figures, on real runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas
import pytest
from plotly.graph_objects import Figure

from labs.catalog import find
from labs.errors import BadInput
from labs.experiments.windows import conditions as windows
from labs.experiments.windows import figures as charts
from labs.experiments.windows import paths
from labs.experiments.windows.conditions import Parameters as Windows
from labs.experiments.windows.figures import PARTS, budget, budget_at, describe, same_packets
from labs.experiments.windows.results import Results, packets
from labs.experiments.windows.settings import PIECES, Settings
from labs.guest.condition import Condition, read_settings
from labs.read.readings.receive_queue import SynAck
from labs.read.runs.run import Run
from tests.real_runs import codes, windows_run, windows_study, with_condition, with_file, with_link


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


def results_of(table: pandas.DataFrame, run: Run | None = None) -> Results:
    """The results of a run with these packets instead of its own."""
    results = Results(run or windows_run("article-scale1"))
    results.table = table
    return results


@cache
def table(kernel: str = "6.1") -> Any:
    return windows_study(kernel).results().set_index("condition")


def test_results_between_two_hosts_are_those_of_the_loopback_device() -> None:
    for kernel in ("6.1", "6.12"):
        rows = table(kernel)
        for scale in ("scale0", "scale1"):
            for column in ("recv_q", "skmem_r", "window_max_bytes", "rcv_q_drop"):
                assert rows.loc[f"hosts-{scale}", column] == rows.loc[f"article-{scale}", column]


def test_every_packet_has_a_sample_unless_nothing_samples() -> None:
    for kernel in ("6.1", "6.12"):
        for name, row in table(kernel).iterrows():
            expected = row["packets"] if name == "unsampled" else 0
            assert abs(row["unsampled_packets"] - expected) <= (name == "unsampled"), name


def test_results_without_samples_leave_out_what_only_samples_show() -> None:
    row = windows_study().results().set_index("condition").loc["unsampled"]
    for name in ("skmem_r_max", "overshoot_bytes", "payload_pct", "dropped", "dropped_in_window"):
        assert row[name] is None or row[name] != row[name], name
    assert (row["skmem_r"], row["recv_q"], row["rcv_q_drop"]) == (73984, 62464, 4)
    (line,) = describe(windows_study().results().query("condition == 'unsampled'")).splitlines()
    assert "73,984 bytes of memory, of a buffer of 65,536;" in line
    assert "dropped" not in line and "although" not in line


def test_metadata_bytes_of_a_queue_that_was_read_are_unknown() -> None:
    run = windows_run("article-scale1")
    assert Results(run).metadata_bytes is not None
    unsampled = packets(run).assign(rmem_bytes=None)
    assert results_of(unsampled, run).metadata_bytes is None
    read = with_condition(run, settings={"reader": PIECES})
    assert Results(read).metadata_bytes is None


def test_round_trips_add_up_to_the_run() -> None:
    for name in ("article-scale0", "article-scale1", "article-1m", "automatic", "chunks"):
        results = Results(windows_run(name))
        rounds = results.rounds
        assert rounds["packets"].sum() == results.packets
        assert rounds["payload_bytes"].sum() == results.recv_q, name
        assert rounds["window_bytes"].max() <= (results.window_max_bytes or 0)


def test_notes_of_a_kernel_that_limits_initrwnd() -> None:
    assert codes(Results(windows_run("initrwnd"))) == ["initrwnd_limited"]
    assert codes(Results(windows_run("initrwnd", "6.12"))) == []
    smaller = with_condition(windows_run("initrwnd"), settings={"initrwnd": 10})
    assert codes(Results(smaller)) == []


def test_notes_of_a_link_and_of_a_buffer_that_was_not_granted(tmp_path: Path) -> None:
    run = windows_run("article-scale1")
    assert codes(Results(run)) == []
    old = '"granted_bytes": 65536'
    small = with_file(run, tmp_path, "run.json", old, '"granted_bytes": 60000')
    assert "SO_RCVBUF of 32,768 bytes gave 60,000, because of net.core.rmem_max" in [
        note.text for note in Results(small).notes()
    ]
    assert Results(with_link(run, rate_mbit=5.0)).skmem_rb == 65536


def test_beyond_window_counts_packets_after_every_right_edge() -> None:
    assert {Results(run).beyond_window for run in windows_study().runs} == {0}
    table = packets(windows_run("article-scale1"))[:3].assign(
        end=[1001, 2001, 3001], window_left_bytes=[500, 0, 0]
    )
    # The first packet fits 1,000 bytes; the second ends at 2,000, beyond 1,500; the third at 3,000.
    results = results_of(table)
    results.offered = SynAck(1000, 0)
    assert results.beyond_window == 2


CONDITIONS = windows_study().conditions


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> str:
    return " | ".join(str(note.text) for note in figure.layout.annotations)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_by_packet_keeps_every_packet_of_every_condition(condition: str) -> None:
    run = windows_run(condition)
    figure = charts.by_packet(run)
    wire = named(figure)["window left, on the wire"]
    assert list(wire.x) == packets(run)["packet"].tolist()
    assert figure.layout.meta["table"]["rows"]


def test_by_packet_has_buttons_for_packets_and_for_time() -> None:
    run = windows_run("article-scale1")
    figure = charts.by_packet(run)
    (menu,) = figure.layout.updatemenus
    assert [button.label for button in menu.buttons] == ["by packet", "by time"]
    for button, column in zip(menu.buttons, ("packet", "time_s"), strict=True):
        assert [len(xs) for xs in button.args[0]["x"]] == [len(trace.x) for trace in figure.data]
        assert button.args[0]["x"][0] == packets(run)[column].tolist()
    assert menu.buttons[0].args[1] == {"xaxis.title.text": "packet number"}
    assert list(figure.data[0].x) == packets(run)["packet"].tolist()


def test_by_packet_without_samples_draws_the_wire_alone() -> None:
    drawn = named(charts.by_packet(windows_run("unsampled")))
    assert "window left, on the wire" in drawn and "coalesced" not in drawn


def test_by_part_adds_up_to_the_memory_in_use() -> None:
    run = windows_run("article-scale0")
    parts = budget(run)
    used = parts[["payload_bytes", "structures_bytes", "unused_bytes"]].sum(axis=1)
    assert used.tolist() == packets(run)["rmem_bytes"].tolist()
    assert (parts[list(PARTS)] >= 0).all().all()
    # The first packet: 1,024 of payload, 256 + 320 of structures, and the rest of 2,304.
    assert parts.iloc[0][list(PARTS)[:3]].tolist() == [1024, 576, 704]
    figure = charts.by_part(run)
    assert len(figure.data) == len(PARTS) + 1
    assert figure.layout.meta["tell"].startswith("Size, in bytes: payload")


def test_by_part_of_half_the_buffer_leaves_some_free() -> None:
    parts = budget(windows_run("article-scale1"))
    total = parts[list(PARTS)].sum(axis=1)
    assert (total == parts["rcvbuf_bytes"]).all()


def test_multiples_without_runs_say_so() -> None:
    assert "no runs" in texts(charts.over_kernels("no-such-condition", windows_study()))
    assert "no runs" in texts(charts.over_scales(windows_study(), "no-such-condition"))
    assert "no runs" in texts(charts.opening_by_kernel("no-such-condition", windows_study()))
    assert "no runs" in texts(charts.opening(windows_study(), "no-such-condition"))


def test_budget_at_counts_from_either_end() -> None:
    run = windows_run("article-scale0")
    table = budget_at(run, 1, -1)
    assert table["Packet"].tolist() == [1, 68]
    with pytest.raises(BadInput, match="there is no packet 0"):
        budget_at(run, 0)


def test_sampling_leaves_the_packets_as_they_are() -> None:
    for kernel in ("6.1", "6.12"):
        table = same_packets(
            windows_run("article-scale0", kernel), windows_run("unsampled", kernel)
        )
        assert table["Different packets"].tolist() == [0, 0], kernel
        assert len(set(table["Packets"])) == 1
