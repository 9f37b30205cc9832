"""The diagnosis of each testbed on this machine, and the next step for what is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from labs.drive.kernel import store
from labs.drive.testbed import diagnosis
from labs.drive.testbed.packages import INSTALL, install_line, packages
from labs.drive.testbeds import TESTBEDS

ROOT = Path(__file__).parents[4]
PROFILE = str(ROOT / "tests" / "docker_profile.py")


def test_doctor_json_gives_each_testbed_a_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [of_testbed["testbed"] for of_testbed in answer["testbeds"]] == list(TESTBEDS)
    for of_testbed in answer["testbeds"]:
        assert of_testbed["can_run"] == all(c["ok"] for c in of_testbed["checks"] if c["needed"])
        assert bool(of_testbed["next"]) != of_testbed["can_run"]
        for check in of_testbed["checks"]:
            assert check["found"] and "\n" not in check["found"]
            assert not check["ok"] or check["next"] is None
    assert any("ping" in note for note in answer["notes"])


def test_doctor_text_agrees_with_the_diagnosis(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for of_testbed in diagnosis.examine():
        verdict = "can run" if of_testbed.can_run else "cannot run here"
        assert f"{of_testbed.where.name}: {verdict}" in text
        assert of_testbed.first_step() in text
    assert "ping does not show the delay" in text


def test_doctor_of_one_testbed_answers_by_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    assert main(["doctor", "virtual", "--json"]) == 3
    (virtual,) = json.loads(capsys.readouterr().out)["testbeds"]
    kernel = next(check for check in virtual["checks"] if check["name"] == "kernel")
    assert kernel["next"] == "labs kernel build 6.1"
    assert virtual["next"] == "labs kernel build 6.1"


def test_built_kernel_refuses_a_damaged_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    broken = store.own_store() / ("a" * 64)
    broken.mkdir(parents=True)
    (broken / store.RECORD).write_text("{}")
    check = diagnosis.built_kernel("6.1")
    assert not check.ok and "kernel.json" in check.finding


@pytest.mark.parametrize(
    ("denied", "ok", "needed"),
    [
        ("", (True, True), False),
        ("ptrace", (True, False), False),
        ("seccomp", (False, True), False),
        ("ptrace,seccomp", (False, False), True),
    ],
)
def test_boot_modes_of_a_sandbox(denied: str, ok: tuple[bool, bool], needed: bool) -> None:
    asks = (
        "import json; from dataclasses import asdict; "
        "from labs.drive.testbed.diagnosis import boot_modes; "
        "print(json.dumps([asdict(one) for one in boot_modes()]))"
    )
    argv = (sys.executable, PROFILE, "--deny", denied, sys.executable, "-c", asks)
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    modes = json.loads(done.stdout)
    assert [mode["name"] for mode in modes] == ["seccomp", "ptrace"]
    assert tuple(mode["ok"] for mode in modes) == ok
    for mode in modes:
        assert mode["needed"] == needed and mode["next_step"]
        assert mode["ok"] != mode["finding"].endswith("is refused (EPERM)")


def test_guest_memory_larger_than_any_folder() -> None:
    check = diagnosis.guest_memory(1 << 40)
    assert not check.ok and "LABS_MEMORY_DIR" in check.next_step


def test_recorded_studies_are_those_of_the_clone() -> None:
    studies = next(check for check in diagnosis.recorded() if check.name == "studies")
    assert studies.ok and Path(studies.finding) == ROOT / "data"


@pytest.mark.parametrize(
    ("limit", "ok"),
    [
        ("-n 127", False),
        ("-n 128", True),
        ("-f 1000", False),
        ("-v 1000000", False),
        ("-v 4500000", True),
    ],
)
def test_process_limits_are_those_of_the_shell(limit: str, ok: bool) -> None:
    asks = (
        "from labs.drive.testbed.diagnosis import process_limits as limits; "
        "found = limits(4096); print(found.ok, found.finding, found.next_step, sep='|')"
    )
    argv = ("sh", "-c", f'ulimit {limit} && exec "$@"', "sh", sys.executable, "-c", asks)
    printed = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    found_ok, finding, next_step = printed.strip().split("|")
    assert found_ok == str(ok)
    assert ok or all(f"ulimit {limit.split()[0]}" in text for text in (finding, next_step))


def test_tools_missing_come_with_the_command_that_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "TOOL_PATH", str(tmp_path))
    checks = list(diagnosis.tools(("nginx", "tc")))
    assert [check.name for check in checks if check.needed] == ["nginx", "tc"]
    assert {check.name for check in checks if not check.needed} == set(diagnosis.OPTIONAL_TOOLS)
    assert not any(check.ok for check in checks)
    assert "--client wget" in next(check.finding for check in checks if check.name == "wget")


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces of the machine need root")
def test_part_of_the_link_is_tried_in_a_namespace() -> None:
    if diagnosis._in_a_namespace("true") is not None:
        pytest.skip("this machine does not let root make network namespaces")
    before = subprocess.run(("ip", "link"), capture_output=True).stdout
    assert diagnosis.part_of_the_link("veth").ok
    for name in diagnosis.LINK_TRIALS:
        check = diagnosis.part_of_the_link(name)
        assert check.ok or (f"lacks {name} (" in check.finding and check.next_step)
    assert subprocess.run(("ip", "link"), capture_output=True).stdout == before


def test_namespaces_without_root_suggest_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    rights = next(check for check in diagnosis.namespaces() if check.name == "rights")
    assert not rights.ok and rights.next_step.startswith("sudo ")


def test_packages_have_the_names_of_the_system() -> None:
    assert packages(("ip", "tc", "ss", "nginx"), "apt-get") == ("iproute2", "nginx")
    assert packages(("ip", "tc", "ss"), "dnf") == ("iproute", "iproute-tc")
    assert packages(("setpriv", "taskset"), "zypper") == ("util-linux",)


def test_install_line_without_a_package_manager_names_the_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install_line(["nginx"]) == "install nginx with the package manager of your system"
    manager = tmp_path / "dnf"
    shutil.copy("/bin/true", manager)
    line = install_line(["nginx", "ip"])
    assert line.removeprefix("sudo ") == f"{INSTALL['dnf']} nginx iproute"
