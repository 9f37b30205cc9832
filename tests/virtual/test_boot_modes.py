"""The two modes in which a kernel stops its programs: equal bytes, and which of them is used."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labs import catalog
from labs.catalog import LABS, find
from labs.cli.__main__ import main
from labs.drive.kernel import store
from labs.drive.kernel.boot import DENIED, EITHER, PTRACE, SECCOMP, _Kernel, boot
from labs.drive.record.seal import HOST
from labs.errors import BadInput, Missing
from labs.launch.launch import Made, run
from labs.launch.plan import plan
from labs.launch.wanted import Wanted
from tests.conftest import DEFAULT_KERNEL
from tests.kept_runs import STORE, make, text

FEW = ("--requests", "20", "--concurrency", "2")
PROFILE = Path(__file__).resolve().parents[1] / "docker_profile.py"
VIRTUAL = [lab for lab in LABS if find(lab).Parameters().testbed == "virtual"]
FEWER: dict[str, dict[str, Any]] = {
    "queues": {"duration_s": 5.0, "only": "bbr-1bdp,fq-codel-ecn,pie,updown-fifo,loss-bursty"},
    "sharing": {"duration_s": 10.0, "only": "rtts-fq-codel,late-bbr,crowd-one-bbr,incast-fq-codel"},
}
"""Of the labs of several flows, the conditions whose queue, control or loss draws random numbers,
and those with every program; all of their conditions would take half an hour."""
KERNELS = [
    DEFAULT_KERNEL,
    *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")),
]


def modes(made: Made) -> set[str]:
    """The modes in which the runs of a study were performed."""
    return {json.loads((run.path / HOST).read_text())["boot"] for run in made.runs}


def digests(lab: str, kernel: str, mode: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The digest of every run of size small, or of FEWER, performed in this mode, as JSON. It is
    kept per key of these runs, which does not contain the mode; runs in seccomp mode, in which
    other tests perform theirs, are kept, too."""
    p = find(lab).Parameters(kernel=kernel, runs=str(runs / mode), **FEWER.get(lab, {}))
    keys = "".join(run.key for run in plan(find(lab), p))

    def perform() -> str:
        monkeypatch.setenv("LABS_BOOT", mode)
        made = make(find(lab), p) if mode == SECCOMP else run(find(lab), p)
        if modes(made) != {mode}:  # kept runs of a machine that denied this mode
            made = run(find(lab), p, Wanted(fresh=True))
        assert modes(made) == {mode}
        return json.dumps({run.path.name: run.digest for run in made.runs}, indent=1)

    return text(STORE, hashlib.sha256(f"{mode} {keys}".encode()).hexdigest(), perform)


@pytest.mark.parametrize("lab", VIRTUAL)
@pytest.mark.parametrize("kernel", KERNELS)
def test_both_modes_leave_the_same_bytes(
    kernel: str, lab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.find(kernel)
    kept = {mode: digests(lab, kernel, mode, tmp_path, monkeypatch) for mode in EITHER}
    assert len(json.loads(kept[PTRACE])) > 1
    assert kept[SECCOMP] == kept[PTRACE]


def test_a_mode_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABS_BOOT", "kvm")
    with pytest.raises(BadInput, match=r"LABS_BOOT=kvm is not allowed\. Allowed: auto, seccomp"):
        run(find("nagle"), find("nagle").Parameters(runs=str(tmp_path), only="off"))
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith(".")]


def test_a_lab_of_a_file_is_booted_with_ptrace_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_of_files", {})  # other tests know no such lab
    monkeypatch.chdir(tmp_path)
    assert main(["new", "ownlab"]) == 0
    lab = find("./ownlab.py")

    def mode(runs: str) -> str:
        made = run(lab, lab.Parameters(runs=str(tmp_path / runs), only="near"))
        return str(json.loads((made.runs[0].path / HOST).read_text())["boot"])

    monkeypatch.delenv("LABS_BOOT", raising=False)
    assert mode("unasked") == PTRACE
    monkeypatch.setenv("LABS_BOOT", SECCOMP)
    assert mode("asked") == SECCOMP


def under_the_profile(
    deny: str, into: Path, *words: str, boot: str = "auto"
) -> subprocess.CompletedProcess[str]:
    """Run `labs` under Docker's default profile, which also denies these calls."""
    labs = (sys.executable, "-m", "labs.cli", "run", "nagle", "--only", "off", *FEW)
    return subprocess.run(
        (sys.executable, str(PROFILE), "--deny", deny, *labs, "--into", str(into), *words),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LABS_BOOT": boot},
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("deny", "used"),
    [("ptrace,process_vm_readv,process_vm_writev,personality", SECCOMP), ("seccomp,prctl", PTRACE)],
)
def test_the_mode_that_a_sandbox_allows_is_used(
    kernel: str, deny: str, used: str, tmp_path: Path
) -> None:
    done = under_the_profile(deny, tmp_path, "--kernel", kernel)
    assert done.returncode == 0, done.stderr
    (host,) = tmp_path.glob(f"*/{HOST}")
    assert json.loads(host.read_text())["boot"] == used


def test_a_sandbox_that_denies_both_is_told_in_a_line(tmp_path: Path) -> None:
    done = under_the_profile("ptrace,seccomp,prctl", tmp_path)
    assert done.returncode == 3
    last = done.stderr.strip().splitlines()[-1]
    for word in ("ptrace(PTRACE_TRACEME) is refused (EPERM)", "PR_SET_NO_NEW_PRIVS", "Docker's"):
        assert word in last
    assert not list(tmp_path.glob("nagle-*"))


@pytest.mark.parametrize(
    ("mode", "advice"), [(SECCOMP, "Set LABS_BOOT=ptrace"), (PTRACE, "set LABS_BOOT=seccomp")]
)
def test_a_forced_mode_that_is_denied_is_told_in_a_line(
    mode: str, advice: str, tmp_path: Path
) -> None:
    denied = {SECCOMP: "seccomp,prctl", PTRACE: "ptrace"}[mode]
    done = under_the_profile(denied, tmp_path, boot=mode)
    assert done.returncode == 3
    assert advice in done.stderr.strip().splitlines()[-1]


def test_a_kernel_without_the_mode_is_refused_by_name(tmp_path: Path) -> None:
    program = Path("/bin/true")
    with pytest.raises(Missing, match=r"built without seccomp mode\. Build it again"):
        boot(program, root=tmp_path, staging=tmp_path, code=tmp_path, argv=(), modes=(SECCOMP,))


def test_a_kernel_that_is_not_there_is_missing(tmp_path: Path) -> None:
    gone = tmp_path / "linux"
    with pytest.raises(Missing, match=r"cannot be read \(No such file .*labs kernel build"):
        boot(gone, root=tmp_path, staging=tmp_path, code=tmp_path, argv=())


def test_a_kernel_is_read_again_once_its_file_changes(tmp_path: Path) -> None:
    kernel = tmp_path / "linux"
    kernel.write_bytes(b"")
    assert not _Kernel.of(kernel).has_seccomp
    kernel.write_bytes(DENIED.encode())
    assert _Kernel.of(kernel).has_seccomp
