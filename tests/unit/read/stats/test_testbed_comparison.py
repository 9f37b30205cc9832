"""The same conditions on two testbeds: agreement, and the reason for a disagreement."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

import labs
from labs.cli.__main__ import main
from labs.drive.result_columns import Margin
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.guest.units import KIB
from labs.read.runs import recorded
from labs.read.runs.recorded import keep
from labs.read.runs.run import Run
from labs.read.stats.machines import Machine
from labs.read.stats.repetitions import Interval, in_the_middle, on_one_kernel, repeated
from labs.read.stats.testbed_comparison import (
    AGREE,
    DISAGREE,
    NOT_COMPARED,
    UNDECIDED,
    Facts,
    as_table,
    compare_testbeds,
    describe_reasons,
    facts,
    grade,
    judge,
    lines,
    reasons,
)
from labs.studies.run_access import flat_table
from labs.studies.study import Study, study
from tests.made_verdicts import runs_of
from tests.real_runs import real_study
from tests.repeated_runs import machines, repetition, repetitions, study_file

MARGIN = Margin(0.9, 1.1, "for a test")
CLOSE = (0.97, 0.98, 0.99, 1.0, 1.01)
WIDE = (0.85, 0.9, 0.95, 1.0, 1.05)
SLOW = (0.68, 0.69, 0.7, 0.71, 0.72)
VIRTUAL = real_study("6.1")
LAB = VIRTUAL.lab


def virtual(condition: str) -> Run:
    return VIRTUAL.run(condition)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.95, 1.05, AGREE),
        (0.9, 1.1, AGREE),
        (0.89, 1.0, UNDECIDED),
        (1.0, 1.11, UNDECIDED),
        (0.5, 2.0, UNDECIDED),
        (0.7, 0.89, DISAGREE),
        (1.11, 1.3, DISAGREE),
        (0.7, 0.9, UNDECIDED),
    ],
)
def test_judge_of_an_interval(low: float, high: float, verdict: str) -> None:
    assert judge(Interval((low + high) / 2, low, high, 5), MARGIN) == verdict


def test_compare_testbeds_side_by_side(tmp_path: Path) -> None:
    runs = [
        *repetitions(tmp_path, virtual("default"), CLOSE),
        *repetitions(tmp_path, virtual("wmem"), WIDE),
        *repetitions(tmp_path, virtual("both"), SLOW, machines=machines(busy_pct=97)),
        *repetitions(tmp_path, virtual("setsockopt"), (1, 1)),
    ]
    rows = compare_testbeds(LAB, VIRTUAL.every, runs)
    assert {row.condition: row.verdict for row in rows} == {
        "default": AGREE,
        "wmem": UNDECIDED,
        "both": DISAGREE,
        "setsockopt": NOT_COMPARED,
    }
    ratio = rows[0].ratio
    assert ratio is not None
    assert (ratio.low, ratio.middle, ratio.high) == pytest.approx((0.97, 0.99, 1.01), abs=1e-3)
    because = {row.condition: row.because for row in rows}
    assert because["default"] == ""
    assert because["wmem"] == "the interval crosses an edge of the margin, 0.9 to 1.1"
    assert because["both"] == "CPU: one of the client's CPUs was 97 % busy (vagrant)"
    assert because["setsockopt"] == "virtual has no figure to compare"
    assert grade(rows) == DISAGREE
    assert lines(rows)[-1] == ("4 conditions: 1 disagree, 1 undecided, 1 agree, 1 not compared")


def test_repeated_counts_disturbed_runs_and_leaves_them_out(tmp_path: Path) -> None:
    run = virtual("default")
    good = repetitions(tmp_path, run, CLOSE)
    bad = repetition(tmp_path, run, 6, speed=0.2, machines=machines(stolen_pct=40))
    (default,) = repeated(LAB, [*good, bad])
    assert (len(default.runs), len(default.counted), default.disturbed) == (6, 5, 1)
    assert default.why == ("client: 40.0 % of its CPU time stolen (allowed 2)",)
    assert default.interval == repeated(LAB, good)[0].interval
    assert default.as_json()["disturbed"] == 1 and json.loads(json.dumps(default.as_json()))
    (row,) = compare_testbeds(LAB, [run], [*good, bad])
    assert (row.verdict, row.as_json()["disturbed"]) == (AGREE, 1)


def test_on_one_kernel_never_pools_two_machines(tmp_path: Path) -> None:
    """Two conditions on a slow machine, one of them on a fast one, too, with more runs."""
    run, other = virtual("default"), virtual("both")
    slow = repetitions(tmp_path / "a", run, CLOSE, release="6.1.0-1")
    slow_too = repetitions(tmp_path / "b", other, CLOSE, release="6.1.0-1")
    fast = repetitions(tmp_path / "c", run, [3 * speed for speed in (*CLOSE, 1)], release="6.1.0-2")
    pooled = repeated(LAB, [*slow, *slow_too, *fast])
    first, second = on_one_kernel(pooled)
    assert (first.runs, second.runs) == (slow, slow_too)
    assert first.values == repeated(LAB, slow)[0].values
    (alone,) = on_one_kernel(pooled[:1])
    assert alone.runs == fast  # of which there are more
    assert in_the_middle(LAB, [*slow, *fast])[0] in fast
    assert on_one_kernel(repeated(LAB, [*slow_too, *fast])) == ()  # no kernel in common


def test_compare_testbeds_with_too_few_runs_is_undecided(tmp_path: Path) -> None:
    run = virtual("default")
    runs = [
        *repetitions(tmp_path, run, CLOSE[:4]),
        repetition(tmp_path, run, 5, machines=machines(load=3.2)),
    ]
    (row,) = compare_testbeds(LAB, [run], runs)
    assert (row.verdict, row.ratio) == (UNDECIDED, None)
    assert row.because == (
        "4 of 5 runs (vagrant) are usable, and an interval needs 5: client: load 3.2 "
        "before the run (allowed 1.5)"
    )


def test_in_the_middle_takes_the_middle_run(tmp_path: Path) -> None:
    runs = repetitions(tmp_path, virtual("default"), (1.0, 0.6, 0.8, 0.9))
    disturbed = repetition(
        tmp_path, virtual("default"), 5, speed=0.7, machines=machines(stolen_pct=9)
    )
    assert in_the_middle(LAB, [*runs, disturbed, virtual("both")]) == (runs[2], virtual("both"))
    assert in_the_middle(LAB, [disturbed]) == (disturbed,)
    assert LAB.headline(virtual("setsockopt")) is None
    timed = LAB.headline(virtual("httping"))
    assert timed is not None and timed[0] == "httping_ms"


def test_compare_testbeds_either_side_first(tmp_path: Path) -> None:
    runs = repetitions(tmp_path, virtual("default"), SLOW, machines=machines(busy_pct=99))
    (row,) = compare_testbeds(LAB, runs, [virtual("default")])
    ratio = row.ratio
    assert ratio is not None and row.verdict == DISAGREE
    assert (ratio.low, ratio.high) == pytest.approx((1 / 0.72, 1 / 0.68), abs=1e-3)
    assert row.because == "CPU: one of the client's CPUs was 99 % busy (vagrant)"
    assert ratio.count == 5


def test_compare_testbeds_of_other_settings_is_not_compared(tmp_path: Path) -> None:
    run = virtual("default")
    condition = run.inputs["condition"]
    settings = {**condition["settings"], "transfer_bytes": 7}
    other = dataclasses.replace(
        run,
        record={
            **run.record,
            "inputs": {**run.inputs, "condition": {**condition, "settings": settings}},
        },
    )
    (row,) = compare_testbeds(LAB, [run], repetitions(tmp_path, other, CLOSE))
    assert row.verdict == NOT_COMPARED
    assert row.because == "the conditions differ: settings.transfer_bytes 2097152 -> 7"


def test_compare_testbeds_refuses_mixed_sides(tmp_path: Path) -> None:
    runs = repetitions(tmp_path, virtual("default"), CLOSE)
    with pytest.raises(BadInput, match=r"one side has runs of virtual and vagrant\. Name a study"):
        compare_testbeds(LAB, [*VIRTUAL.every, *runs], runs)
    with pytest.raises(BadInput, match="the two sides have no condition in common"):
        compare_testbeds(LAB, [virtual("both")], runs)
    assert as_table(compare_testbeds(LAB, VIRTUAL.every, [])).empty


WINDOW = {"receive window": 90.0, "send buffer": 0.0}
ONE = Facts("virtual", "6.1.192", 250, 10.0, {}, WINDOW, 128 * KIB, 10.0)


def two(**client: Any) -> Facts:
    given = {"release": "6.1.0-49", "busiest_pct": 40.0, **client}
    machines = {"client": Machine(**given)}
    return Facts("vagrant", "6.1.0-49", 250, 10.0, machines, WINDOW, 128 * KIB, 8.0)


@pytest.mark.parametrize(
    ("other", "texts"),
    [
        (two(), ()),
        (two(busiest_pct=91.2), ("CPU: one of the client's CPUs was 91 % busy (vagrant)",)),
        (
            two(offloads={"tso": False, "gso": True, "gro": True}, driver="virtio_net"),
            ("driver: tso off on the client (virtio_net, vagrant)",),
        ),
        (dataclasses.replace(two(), hz=1000), ("HZ: a tick is 1 ms (vagrant), 4 ms (virtual)",)),
        (
            dataclasses.replace(two(), release="6.12.1", predicted=15.0),
            ("kernel: the prediction is 15 for Linux 6.12.1 and 10 for 6.1.192, a ratio of 1.50",),
        ),
        (dataclasses.replace(two(), release="6.12.1", predicted=10.5), ()),
        (
            dataclasses.replace(two(), machines={"here": Machine(busy_pct=95.0)}),
            ("CPU: the host's CPUs were 95 % busy (vagrant)",),
        ),
        (
            dataclasses.replace(two(), offered_bytes=112 * KIB),
            (
                "receive window: the sender was offered 112 KiB on average (vagrant), 128 KiB "
                "(virtual), a ratio of 0.88",
            ),
        ),
        (dataclasses.replace(two(), offered_bytes=124 * KIB), ()),  # within half of the margin
        (dataclasses.replace(two(), offered_bytes=112 * KIB, figure=12.0), ()),  # and yet faster
        (
            dataclasses.replace(two(), limited={"receive window": 30.0, "send buffer": 60.0}),
            (
                "limit: the send buffer for 60 % of the time (vagrant), the receive window for "
                "90 % of the time (virtual)",
            ),
        ),
        (dataclasses.replace(two(), limited={}, offered_bytes=None), ()),  # no samples
    ],
)
def test_reasons_are_measurements(other: Facts, texts: tuple[str, ...]) -> None:
    assert reasons(ONE, other, MARGIN) == texts


def test_window_that_a_late_reader_leaves_small() -> None:
    """By a reader of whole blocks behind a fixed buffer. On emulated machines the last ACK of a
    burst is sent while much is unread; the read that follows tells of the whole window only if that
    is at least twice as large (net/ipv4/tcp.c __tcp_cleanup_rbuf()). Goodput is the mean window by
    the RTT, so both ratios are equal but for the window's samples (100 ms) and the RTT: 3 %."""
    here = study(
        Buffers(
            testbed="recorded",
            kernel="6.1",
            only="by-hand,default",
            rate_mbit=200,
            transfer_mib=128,
        )
    )
    rows = here.compare(here.on_testbed("vagrant")).set_index("condition")
    because = str(rows.loc["by-hand", "because"])
    windows = re.search(r"receive window: .*, a ratio of ([\d.]+)$", because)
    assert windows is not None, because
    assert float(windows[1]) < 0.95
    assert float(windows[1]) == pytest.approx(rows.loc["by-hand", "ratio"], rel=0.03)
    # With the default buffers machines are limited by another buffer than virtual time.
    sides = [facts(side.lab, side.run("default")) for side in (here, here.on_testbed("vagrant"))]
    virtual_time, machines = (side.limited for side in sides)
    assert virtual_time["send buffer"] > 45 > 40 > virtual_time["receive window"]
    assert machines["receive window"] > 60 > 20 > machines["send buffer"]


def test_describe_without_a_reason() -> None:
    assert describe_reasons(ONE, two(), MARGIN) == (
        "no measurement explains it: no CPU was busier than 40 %, Linux 6.1.192 and 6.1.0-49, "
        "HZ 250 and 250"
    )
    bare = Facts("vagrant", "6.1.0-49")
    assert "no CPU was measured" in describe_reasons(ONE, bare, MARGIN)
    assert describe_reasons(ONE, bare, MARGIN).endswith("HZ 250 and unknown")


def second(tmp_path: Path, speeds: tuple[float, ...] = CLOSE) -> Path:
    """A folder with a study of two conditions on machines."""
    runs = [
        run
        for name in ("default", "both")
        for run in repetitions(tmp_path / "runs", virtual(name), speeds)
    ]
    return study_file(VIRTUAL, runs).path


def test_runs_compare_rows_and_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = str(VIRTUAL.file)
    for speeds, code, word in (
        (CLOSE, 0, "2 agree"),
        (SLOW, 5, "2 disagree"),
        (WIDE, 5, "2 undecid"),
    ):
        file = second(tmp_path / word[2:], speeds)
        assert main(["runs", "compare", first, str(file)]) == code
        printed = capsys.readouterr().out
        *_, last, about_machines = printed.splitlines()
        assert last.startswith(f"2 conditions: {word}") and "no audit" in about_machines
        assert "margin 0.9 to 1.1: at rates that both machines can carry" in printed
        assert "\nhttping: 1 run only in the first\n" in printed
        assert main(["runs", "compare", first, str(file), "--json"]) == code
        (answer,) = json.loads(capsys.readouterr().out)["labs"]
        assert (answer["margin"]["low"], len(answer["conditions"])) == (0.9, 2)
        assert answer["runs"]["second"] == sum(row["counted"] for row in answer["conditions"])
        assert "httping" in answer["only_first"] and not answer["only_second"]


def test_runs_compare_of_nothing_comparable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = virtual("httping")
    other = study_file(
        VIRTUAL, repetitions(tmp_path / "runs", with_link_asked(run, rate_mbit=5), CLOSE)
    ).path
    assert main(["runs", "compare", str(VIRTUAL.file), str(other)]) == 5
    assert capsys.readouterr().out.splitlines()[-2] == "1 conditions: 1 not compared"


def test_runs_compare_of_a_study_with_itself(tmp_path: Path) -> None:
    file = str(second(tmp_path))
    assert main(["runs", "compare", file, file]) == 0


def test_runs_compare_of_two_real_time_studies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [second(tmp_path / name, speeds) for name, speeds in (("a", CLOSE), ("b", SLOW))]
    assert main(["runs", "compare", *map(str, files)]) == 5
    assert capsys.readouterr().out.splitlines()[-2] == "2 conditions: 2 disagree"


def test_on_testbed_finds_the_second_study(tmp_path: Path) -> None:
    file = second(tmp_path)
    here = dataclasses.replace(VIRTUAL, folder=file.parent.parent)
    other = here.on_testbed("vagrant")
    assert [run.condition for run in other.runs] == ["default", "both"]
    assert len(other.every) == 10
    assert list(other.repetitions()["counted"]) == [5, 5]
    assert "(0.9, 1.1)" not in repr(other) and "vagrant · Linux 6.1.0-49" in repr(other)
    table = here.compare(other)
    assert list(table["verdict"]) == [AGREE, AGREE]
    assert list(other.results()["condition"]) == ["default", "both"]


def test_all_on_testbed_has_every_recorded_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    for name, speeds in (("buffers-a", CLOSE), ("buffers-b", SLOW)):
        keep(second(tmp_path / name, speeds).parent.parent, data, name)
    monkeypatch.setattr(recorded, "folder", lambda: data)
    alone = dataclasses.replace(VIRTUAL, folder=tmp_path / "empty")
    studies = alone.all_on_testbed("vagrant")
    assert [len(study.every) for study in studies] == [10, 10]
    assert len({study.folder for study in studies}) == 2
    assert alone.on_testbed("vagrant").folder == studies[0].folder


def test_on_testbed_without_a_second_study_says_how_to_make_it(tmp_path: Path) -> None:
    alone = dataclasses.replace(VIRTUAL, folder=tmp_path, runs=VIRTUAL.runs[:2], every=())
    other = alone.on_testbed("vagrant")
    assert other.lacks == (
        "there is no study of these conditions on vagrant. Run: make box && vagrant up && labs run "
        "buffers --testbed vagrant --rate-mbit 10 --delay-ms 40 --transfer-mib 2 "
        "--only shaped,httping"
    )
    assert alone.compare(other).empty
    with pytest.raises(BadInput, match="there is no study of these conditions on vagrant"):
        other.repetitions()
    with pytest.raises(BadInput, match="Allowed: namespaces, vagrant"):
        alone.on_testbed("recorded")


def test_verdicts_contradicted_by_a_second_testbed_are_disputed(tmp_path: Path) -> None:
    runs = [
        run
        for name in VIRTUAL.conditions
        if name in ("default", "adv-2", "adv-m2", "setsockopt-raised")
        for run in repetitions(tmp_path, virtual(name), SLOW)
    ]
    other = dataclasses.replace(VIRTUAL, runs=in_the_middle(LAB, runs), every=tuple(runs))
    alone, both = labs.verdicts(VIRTUAL), labs.verdicts(VIRTUAL, other)
    changed = both[both["verdict"] != alone["verdict"]]
    assert list(changed["claim"]) == ["A1.11"]
    assert list(changed["verdict"]) == ["disputed"]
    for row in changed.to_dict("records"):
        assert row["testbed"] == "virtual, vagrant · Linux 6.1.192, 6.1.0-49-cloud-amd64"
        text = " ".join(row["because"].more)
        assert "ratio 0.70 (0.68 to 0.72): no measurement explains it" in text
    assert labs.verdicts(
        VIRTUAL, Study(VIRTUAL.parameters, (), tmp_path, None, True, lab=VIRTUAL.lab)
    ).equals(alone)


def test_runs_of_takes_the_run_in_the_middle(tmp_path: Path) -> None:
    file = second(tmp_path, SLOW)
    for where in (file, file.parent.parent):
        by_condition = {run.condition: run for run in runs_of(LAB, where)}
        assert {name: run.repetition for name, run in by_condition.items()} == {
            "default": 3,
            "both": 3,
        }


def test_flat_table_names_disturbances(tmp_path: Path) -> None:
    good = repetition(tmp_path, virtual("default"), 1)
    bad = repetition(tmp_path, virtual("default"), 2, machines=machines(stolen_pct=9))
    table = flat_table([good, bad])
    assert list(table["inputs.repetition"]) == [1, 2]
    assert list(table["disturbed"]) == ["", "client: 9.0 % of its CPU time stolen (allowed 2)"]
    assert "disturbed" not in flat_table([virtual("default")])


def test_on_testbed_ignores_a_study_of_another_link(tmp_path: Path) -> None:
    file = second(tmp_path)
    slower = [with_link_asked(run, rate_mbit=5) for run in VIRTUAL.runs]
    other = dataclasses.replace(VIRTUAL, folder=file.parent.parent, runs=tuple(slower), every=())
    assert other.on_testbed("vagrant").lacks


def with_link_asked(run: Run, **asked: Any) -> Run:
    """The run as if its condition had another link."""
    condition = run.inputs["condition"]
    inputs = {**run.inputs, "condition": {**condition, "link": {**condition["link"], **asked}}}
    return dataclasses.replace(run, record={**run.record, "inputs": inputs})
