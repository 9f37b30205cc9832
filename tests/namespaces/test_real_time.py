"""Repetition in real time: a condition that needs no shaper, repeated on this machine's
own namespaces, and once more over ssh as a second witness."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import cast

import pytest

from labs.catalog import find
from labs.cli.__main__ import main
from labs.drive.kernel.programs import python, versions
from labs.drive.record.run_folder import Staging
from labs.drive.record.seal import key
from labs.drive.testbed.diagnosis import LINK_TRIALS, part_of_the_link
from labs.drive.testbed.vagrant import Machine, Machines
from labs.experiments.buffers import experiment as buffers
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.guest.execution import drive
from labs.guest.testbed.contract import Testbed
from labs.launch.launch import Made, run
from labs.launch.plan import plan
from labs.launch.wanted import Wanted
from labs.read.audit.differences import of_run
from labs.read.audit.machine import audit
from labs.read.runs.run import Run, open_run
from labs.read.stats.machines import machines
from labs.read.stats.repetitions import repeated
from labs.read.stats.testbed_comparison import AGREE, DISAGREE, UNDECIDED, compare_testbeds
from tests.sshd import Sshd

LAB = find("buffers")
LEAST, MOST = 5, 7


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Buffers:
    """A very short download, and an interval that is never narrow enough."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    return Buffers(
        testbed="namespaces",
        only="unshaped",
        transfer_mib=8,
        repetitions_min=LEAST,
        repetitions_max=MOST,
        ci_width_pct=0,
        runs=str(tmp_path_factory.mktemp("runs")),
    )


@pytest.fixture(scope="module")
def made(asked: Buffers, alone: None) -> tuple[Made, list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    return run(LAB, asked, Wanted(tell=lambda title, event: told.append((title, str(event))))), told


def test_run_repeats_up_to_the_limit(made: tuple[Made, list[tuple[str, str]]]) -> None:
    study, told = made
    assert sorted(title for title, line in told if line == "made") == [
        f"unshaped {number}" for number in range(1, MOST + 1)
    ]
    opened = study.runs
    assert [one.inputs["repetition"] for one in opened] == list(range(1, MOST + 1))
    assert len({one.key for one in opened}) == MOST
    (found,) = repeated(LAB, opened)
    assert (found.figure, len(found.runs)) == ("goodput_mib_s", MOST)
    assert found.interval is None if len(found.counted) < 5 else found.interval is not None


def test_run_keeps_the_audit_of_its_machine(made: tuple[Made, list[tuple[str, str]]]) -> None:
    for run_made in made[0].runs:
        found = of_run(run_made)
        assert set(found) == {"here"} and len(audit(found["here"])) >= 50


def test_run_records_its_machines(made: tuple[Made, list[tuple[str, str]]]) -> None:
    for run_made in made[0].runs:
        seen = machines(run_made)
        assert set(seen) == {"here", "server", "client"}
        for one in seen.values():
            assert one.cpus and one.load_before is not None and one.stolen_pct is not None
            assert one.release == (Path("/proc/sys/kernel/osrelease").read_text().strip())
        assert {seen[name].driver for name in ("server", "client")} <= {"veth", None}


def test_run_resumes_an_interrupted_study(
    asked: Buffers, made: tuple[Made, list[tuple[str, str]]]
) -> None:
    gone = made[0].file.folders()[2]
    shutil.rmtree(gone)
    told: list[tuple[str, str]] = []
    again = run(LAB, asked, Wanted(tell=lambda title, event: told.append((title, str(event)))))
    assert [title for title, line in told if line == "made"] == ["unshaped 3"]
    assert again.file.folders() == made[0].file.folders()
    assert again.file.name == made[0].file.name


def test_run_prints_interval_and_counts(
    asked: Buffers, made: tuple[Made, list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "run",
        "buffers",
        "--testbed",
        "namespaces",
        "--only",
        "unshaped",
        "--transfer-mib",
        "8",
        "--repetitions-max",
        str(MOST),
        "--ci-width-pct",
        "0",
        "--into",
        asked.runs,
    ]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (row,) = said["results"]
    (one,) = said["repeated"]
    assert (row["condition"], one["condition"], one["runs"]) == ("unshaped", "unshaped", MOST)
    assert one["counted"] + one["disturbed"] == MOST
    if one["counted"] >= 5:
        assert one["low"] <= one["middle"] <= one["high"]
    assert main(words) == 0
    assert "repeated conditions: the median and its 95 % interval" in capsys.readouterr().out


@pytest.fixture(scope="module")
def over_ssh(
    asked: Buffers,
    daemons: dict[str, tuple[Sshd, Machine]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Run]:
    """Runs of the same condition over ssh."""
    server, client = (machine for _, machine in daemons.values())
    runs = tmp_path_factory.mktemp("over-ssh")
    found = []
    for number in range(1, LEAST + 1):
        (planned,) = plan(LAB, asked)
        inputs = {**planned.repeated(number).inputs, "testbed": "ssh"}
        order = {
            "inputs": inputs,
            "key": key(inputs),
            "hz": None,
            "versions": versions(planned.programs, python()),
        }
        with Staging(runs, f"run-{number}") as staging:
            testbed = Machines(planned.condition.link, server, client)
            drive(order, buffers, cast(Testbed, testbed), staging.folder, lambda line: None)
            found.append(open_run(staging.seal({})))
    return found


def test_compare_with_a_second_testbed_over_ssh(
    made: tuple[Made, list[tuple[str, str]]], over_ssh: list[Run]
) -> None:
    """The speed is not tested, only that there is a verdict and its reason."""
    for one in over_ssh:
        seen = machines(one)
        assert set(seen) == {"here", "server", "client"}
        assert seen["server"].cpus == seen["here"].cpus
    (row,) = compare_testbeds(LAB, made[0].runs, over_ssh)
    assert row.verdict in (AGREE, UNDECIDED, DISAGREE)
    assert bool(row.because) is (row.verdict != AGREE)
    assert row.second.runs[0].testbed == "ssh"


def test_run_refuses_a_link_that_this_kernel_cannot_make(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = [name for name in LINK_TRIALS if not part_of_the_link(name).ok]
    if not lacking:
        pytest.skip("this machine's kernel can make every link")
    assert (
        main(
            [
                "run",
                "buffers",
                "--testbed",
                "namespaces",
                "--only",
                "default",
                "--into",
                str(tmp_path),
            ]
        )
        == 3
    )
    said = capsys.readouterr().err
    assert f"lacks {lacking[0]} (" in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())
