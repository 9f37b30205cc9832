"""What two machines are set to differently."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from labs.drive.record.seal import HOST
from labs.errors import Damaged
from labs.read.audit.differences import MachinePair, as_lines, compared, differences, of_run
from labs.read.runs.archive import AUDIT
from labs.read.runs.run import Run, open_run
from tests.recorded_audits import GUEST, ROOT, USER, collected, recorded, with_files
from tests.run_folders import make_run


def test_differences_of_a_machine_with_itself() -> None:
    assert differences(recorded(USER), recorded(USER)) == []


def test_differences_leave_out_what_varies_and_what_one_side_does_not_know() -> None:
    """The same machine, as root and as another user, some seconds later under another load."""
    assert differences(recorded(USER), recorded(ROOT)) == []


def test_differences_name_items_and_sysctls() -> None:
    changed = with_files(
        recorded(USER),
        {
            "/proc/sys/net/core/message_cost": "6\n",
            "/sys/class/net/eth0/mtu": "9000\n",
            "/proc/sys/net/netfilter/nf_conntrack_count": "9\n",
        },
    )
    assert [(one.title, one.first, one.second) for one in differences(recorded(USER), changed)] == [
        ("MTU", "1400 bytes", "9000 bytes"),
        ("net.core.message_cost", "5", "6"),
    ]


def test_differences_of_cards_with_other_names() -> None:
    """The only card of each machine is compared, whatever its name."""
    raw = recorded(USER)
    renamed = dataclasses.replace(
        raw,
        files={path.replace("eth0", "ens3"): text for path, text in raw.files.items()},
        refused={path.replace("eth0", "ens3"): why for path, why in raw.refused.items()},
        outputs={
            tuple(word.replace("eth0", "ens3") for word in argv): done
            for argv, done in raw.outputs.items()
        },
        devices=("ens3",),
    )
    assert differences(raw, renamed) == []


def test_differences_of_two_kernels() -> None:
    found = {
        one.title: (one.first, one.second) for one in differences(*map(recorded, (GUEST, ROOT)))
    }
    assert found["net.core.rmem_max"] == ("212992", "4194304")
    assert found["net.ipv4.tcp_plb_enabled"] == ("not there", "0")
    assert found["Kernel"][0] == "6.1.192"


def test_as_lines_says_if_there_is_no_audit() -> None:
    assert as_lines([]) == [
        "the machines were not compared: one side or both have no audit in host.json"
    ]
    assert as_lines([MachinePair("here", "server", ())]) == [
        "machines differ in 0 items (here -> server)"
    ]


def audited(runs: Path, machines: object) -> Run:
    """A run with the audits of its machines in host.json, as runs in real time store them."""
    return open_run(make_run(runs, host={"started": "now", AUDIT: machines}))


def changed(name: str, path: str, text: str) -> dict[str, Any]:
    """A recorded audit with another content of a file."""
    found = collected(name)
    return {**found, "files": {**found["files"], path: text}}


def test_compared_names_the_machines_that_differ(tmp_path: Path) -> None:
    first = audited(tmp_path / "a", {"here": collected(USER)})
    other = changed(USER, "/proc/sys/net/ipv4/tcp_sack", "0\n")
    second = audited(tmp_path / "b", {"server": collected(USER), "client": other})
    same, differ = compared([first], [second])
    assert (same.first, same.second, same.differences) == ("here", "server", ())
    assert as_lines([differ]) == [
        "machines differ in 1 item (here -> client)",
        "  net.ipv4.tcp_sack: 1 -> 0",
    ]


def test_compared_pairs_machines_of_the_same_name(tmp_path: Path) -> None:
    both = {"server": collected(USER), "client": collected(GUEST)}
    found = compared([audited(tmp_path / "a", both)], [audited(tmp_path / "b", both)])
    assert [(one.first, one.second) for one in found] == [("server",) * 2, ("client",) * 2]
    assert not any(one.differences for one in found)


def test_compared_without_an_audit(tmp_path: Path) -> None:
    without = open_run(make_run(tmp_path / "a"))
    assert compared([without], [audited(tmp_path / "b", {"here": collected(USER)})]) == []
    (without.path / HOST).unlink()
    assert of_run(without) == {}


@pytest.mark.parametrize("wrong", [{"here": 3}, "text"])
def test_of_run_refuses_a_damaged_audit(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(Damaged, match="the audit in"):
        of_run(audited(tmp_path, wrong))
