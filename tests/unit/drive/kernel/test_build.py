"""The parts of a build that need no kernel source: its surroundings, its errors, its end."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labs.drive.kernel import build, check, install, store
from labs.drive.kernel.build import Progress
from labs.drive.kernel.versions import read_kernel_spec
from labs.errors import BadInput, Damaged, Missing, RunFailed

TOP = Path(__file__).parents[4]
ENDS = pytest.mark.skipif(
    not (shutil.which("make") and shutil.which("setpriv")), reason="needs make and setpriv"
)
SLOW = "linux:\n\t@echo '  CC      a.o'\n\t@sh -c 'echo $$$$ >pid; exec sleep 600'\n"
DRIVER = """\
import sys
from pathlib import Path
from labs.drive.kernel.build import _make
_make(Path(sys.argv[1]), "linux", on_line=lambda line: print(line, flush=True))
"""


def test_nothing_of_the_users_environment_comes_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build.environment(tmp_path)
    for name in ("CFLAGS", "KCFLAGS", "MAKEFLAGS", "LANG", "LD_PRELOAD", "CC", "PATH"):
        monkeypatch.setenv(name, "/elsewhere")
    assert build.environment(tmp_path) == before
    told = {key: value for key, value in before.items() if str(tmp_path) in value}
    assert set(told) == {"HOME", "KCFLAGS", "KAFLAGS", "HOSTCFLAGS"}


def test_missing_tools_are_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gcc").touch(0o755)
    monkeypatch.setattr(build, "PATH", str(tmp_path))
    with pytest.raises(Missing, match=r"apt-get install bc binutils bison flex make") as refused:
        build.needs()
    assert " gcc" not in str(refused.value)


def test_each_patch_says_what_it_is_for() -> None:
    patches = sorted(build.PATCHES.glob("*.patch"))
    assert [patch.stem for patch in patches] == [
        "end-with-tracer",
        "fixed-memory",
        "hz-250",
        "large-registers",
        "seeded-random",
    ]
    for patch in patches:
        head = patch.read_text().split("\n--- a/")[0]
        assert len(head) > 150, patch.name


@ENDS
def test_the_first_error_of_make_is_what_is_said(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(
        "linux:\n\t@echo '  CC      a.o'\n\t@echo 'a.c:3: error: no such thing'\n\t@false\n"
    )
    with pytest.raises(RunFailed, match=r"make linux failed, saying: a\.c:3: error: no such"):
        build._make(tmp_path, "linux")


@ENDS
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_a_build(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "Makefile").write_text(SLOW)
    argv = [sys.executable, "-c", DRIVER, str(tmp_path)]
    with subprocess.Popen(
        argv, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"  CC      a.o\n"
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            time.sleep(0.01)
        sleeper = int((tmp_path / "pid").read_text())
        driver.send_signal(how)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{sleeper}").exists() and state(sleeper) != "Z":
        assert time.monotonic() < deadline, "a child of make is still there"
        time.sleep(0.01)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def measured(**changes: object) -> dict[str, object]:
    """What the rig prints on a sound 6.1 kernel."""
    return {
        "release": "6.1.192",
        "hz": 250,
        "virtual_time": True,
        "memory_kib": 1011072,
        "random": "87d79117cd9e4092",
        "rtt_ms": 200.001,
        "packet_overhead": 1280,
        "adv_win_scale_0": {"skmem_r": 73984, "skmem_rb": 65536, "recv_q": 62464},
        "adv_win_scale_1": {"skmem_r": 62464, "skmem_rb": 65536, "recv_q": 57344},
        "differs": [],
        **changes,
    }


def test_a_sound_kernel_passes() -> None:
    assert check.judge(measured(), "6.1.192") == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rtt_ms": 0.02}, "a link of 200 ms has a round trip of 0.02 ms"),
        ({"rtt_ms": 203.0}, "203.0 ms"),
        ({"virtual_time": False}, "UML_TIME_TRAVEL_SUPPORT"),
        ({"differs": ["memory_kib"]}, "two boots differ in memory_kib"),
        ({"release": "6.1.99"}, "it calls itself 6.1.99, not 6.1.192"),
        ({"packet_overhead": 768}, "packet_overhead is 768, should be 1,280"),
        (
            {"adv_win_scale_0": {"skmem_r": 67584, "skmem_rb": 65536, "recv_q": 64512}},
            "adv_win_scale_0.skmem_r is 67,584, should be 73,984",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_figure(changes: dict[str, object], says: str) -> None:
    assert says in "; ".join(check.judge(measured(**changes), "6.1.192"))


def test_a_series_without_published_figures_is_measured_only() -> None:
    odd = measured(release="7.2.13", adv_win_scale_0={"skmem_r": 1, "skmem_rb": 2, "recv_q": 3})
    assert check.judge(odd, "7.2.13") == ()
    assert not check.judged("7.2.13")
    assert [row["expected"] for row in check.compared(odd)] == [200, *[None] * 7]


def test_a_file_is_added_only_with_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "linux"
    file.write_bytes(b"no kernel")
    right = hashlib.sha256(b"no kernel").hexdigest()
    with pytest.raises(BadInput, match="all 64 hex digits"):
        install.add(file, right[:12])
    with pytest.raises(Damaged, match=f"has the sha256 {right}, not 0000"):
        install.add(file, "0" * 64)
    with pytest.raises(BadInput, match="is not a file"):
        install.add(tmp_path / "none", right)
    assert install.plan_add(file, right.upper())["into"] == str(store.own_store() / right)
    assert not store.own_store().exists()


def test_a_plan_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    tarball = tmp_path / "linux.tar.xz"
    tarball.touch()
    found = build.plan(read_kernel_spec("6.1.192-2"), tarball=tarball)
    assert found["built"] is None
    assert found["from"] == "tarball"
    assert found["patches"] == sorted(path.name for path in build.PATCHES.glob("*.patch"))
    assert os.listdir(tmp_path) == ["linux.tar.xz"]


def test_progress_without_a_terminal_is_a_line_a_tenth() -> None:
    said = io.StringIO()
    show = Progress(stream=said)
    show.step("compiling")
    for done in range(1, 601):
        show.part(done, 600, f"{done}.o")
    show.close()
    lines = said.getvalue().splitlines()
    assert lines[0] == "compiling"
    assert [line.split()[0] for line in lines[1:]] == [str(n) for n in range(10, 100, 10)]
    assert "\r" not in said.getvalue()


def test_quiet_progress_says_nothing() -> None:
    said = io.StringIO()
    show = Progress(quiet=True, stream=said)
    show.step("compiling")
    show.part(1, 2, "a.o")
    show.close()
    assert said.getvalue() == ""
