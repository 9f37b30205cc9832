"""The parts of a build that need no kernel source: surroundings, options, errors, its end."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from labs.drive.kernel import build, store
from labs.drive.kernel.build import Progress
from labs.drive.kernel.options import fragment_text, options_of, verify_options
from labs.drive.kernel.versions import OF_EVERY_SERIES, PATCHES, SERIES, read_kernel_spec
from labs.errors import BadInput, Damaged, Missing, RunFailed

TOP = Path(__file__).parents[4]
TOUCHED = TOP / "tests/fixtures/kernel/touched-files.tar.xz"
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


def test_environment_takes_nothing_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build.environment(tmp_path)
    for name in ("CFLAGS", "KCFLAGS", "MAKEFLAGS", "LANG", "LD_PRELOAD", "CC", "PATH"):
        monkeypatch.setenv(name, "/elsewhere")
    assert build.environment(tmp_path) == before
    told = {key: value for key, value in before.items() if str(tmp_path) in value}
    assert set(told) == {"HOME", "KCFLAGS", "KAFLAGS", "HOSTCFLAGS"}


def test_needs_names_the_missing_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gcc").touch(0o755)
    monkeypatch.setattr(build, "PATH", str(tmp_path))
    with pytest.raises(Missing, match=r"apt-get install bc binutils bison flex make") as refused:
        build.needs()
    assert " gcc" not in str(refused.value)


def test_patches_each_say_what_they_are_for_and_are_used() -> None:
    used = {*OF_EVERY_SERIES, *(name for series in SERIES.values() for name in series.patches)}
    files = sorted(PATCHES.rglob("*.patch"))
    assert {str(file.relative_to(PATCHES).with_suffix("")) for file in files} == used
    for file in files:
        assert len(file.read_text().split("\n--- a/")[0]) > 150, file.name


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
@pytest.mark.parametrize("series", SERIES)
def test_patches_apply_to_the_files_of_their_series(tmp_path: Path, series: str) -> None:
    with tarfile.open(TOUCHED) as packed:
        for member in packed.getmembers():
            if member.name.startswith(f"{series}/"):
                packed.extract(member, tmp_path, filter="data")
    tree = tmp_path / series
    build._apply(tree, series)
    patched = b"".join(file.read_bytes() for file in tree.rglob("*") if file.is_file())
    for lines in build.changes(SERIES[series].patch_files()).values():
        assert all(line[1:] in patched for line in lines if line[:1] == b"+")


def test_apply_names_the_patch_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"end-with-tracer\.patch does not apply"):
        build._apply(tmp_path, "6.1")


def test_changes_ignore_names_words_and_line_numbers() -> None:
    files = SERIES["6.1"].patch_files()
    joined = b"Other words.\n" + b"\n".join(files[name] for name in sorted(files))
    assert build.changes({"all.patch": joined.replace(b"@@ -", b"@@ -9")}) == build.changes(files)
    without = {name: text for name, text in files.items() if name != "hz-250.patch"}
    assert build.changes(without) != build.changes(files)


@ENDS
def test_make_failure_is_its_first_error(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(
        "linux:\n\t@echo '  CC      a.o'\n\t@echo 'a.c:3: error: no such thing'\n\t@false\n"
    )
    with pytest.raises(RunFailed, match=r"make linux failed: a\.c:3: error: no such"):
        build._make(tmp_path, "linux")


@ENDS
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_make_leaves_no_process_when_its_build_ends(tmp_path: Path, how: signal.Signals) -> None:
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


def test_plan_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    tarball = tmp_path / "linux.tar.xz"
    tarball.touch()
    found = build.plan(read_kernel_spec("6.1.192-2"), tarball=tarball)
    assert found["built"] is None
    assert found["from"] == "tarball"
    assert found["patches"] == sorted(SERIES["6.1"].patch_files())
    assert os.listdir(tmp_path) == ["linux.tar.xz"]


def test_plan_refuses_a_series_that_no_patches_fit() -> None:
    with pytest.raises(BadInput):
        build.plan(read_kernel_spec("5.15"))


def test_build_refuses_a_series_that_no_patches_fit_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LABS_KERNELS", raising=False)
    with pytest.raises(BadInput):
        build.build(read_kernel_spec("7.3"))
    assert list(tmp_path.iterdir()) == []


def test_progress_without_a_terminal_is_one_line_per_tenth() -> None:
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


def test_options_of_reads_every_kind() -> None:
    text = '# why\n\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_HZ=250\nCONFIG_S="a b"\n'
    assert options_of(text) == {
        "CONFIG_A": "y",
        "CONFIG_B": "n",
        "CONFIG_HZ": "250",
        "CONFIG_S": '"a b"',
    }


def test_options_of_lets_a_later_line_win() -> None:
    assert options_of("CONFIG_A=y\n# CONFIG_A is not set\n") == {"CONFIG_A": "n"}


@pytest.mark.parametrize(
    "line",
    ["CONFIG_A = y", "CONFIG_A", "A=y", "# CONFIG_A is not  set", "# CONFIG_A=y", " CONFIG_A=y"],
)
def test_options_of_refuses_a_mistyped_line(line: str) -> None:
    with pytest.raises(Damaged, match="line 2"):
        options_of(f"CONFIG_Z=y\n{line}\n")


def test_verify_options_names_what_was_not_taken() -> None:
    wanted = options_of("CONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\nCONFIG_HZ=250\n")
    config = options_of("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_HZ=100\n")
    with pytest.raises(RunFailed, match=r"6\.1\.192 .*CONFIG_B .*Linux 6\.1") as refused:
        verify_options(wanted, config, "6.1.192")
    for lacking in ("B (requested y, is n)", "C (requested n, is y)", "HZ (requested 250, is 100)"):
        assert f"CONFIG_{lacking}" in str(refused.value)
    assert "CONFIG_A" not in str(refused.value)


def test_verify_options_counts_an_unknown_option_as_off() -> None:
    verify_options(options_of("# CONFIG_SLUB_TINY is not set\n"), {}, "6.1.192")
    with pytest.raises(RunFailed, match=r"CONFIG_A \(requested y, is n\)"):
        verify_options(options_of("CONFIG_A=y\n"), {}, "6.1.192")


def test_fragment_text_adds_the_lines_of_a_series() -> None:
    newest, oldest = options_of(fragment_text("7.2")), options_of(fragment_text("5.10"))
    assert newest.items() < oldest.items() and oldest["CONFIG_BLOCK"] == "y"


def test_fragment_text_names_each_option_once() -> None:
    text = fragment_text("6.1")
    lines = [line for line in text.splitlines() if "CONFIG_" in line]
    options = options_of(text)
    assert len(lines) == len(options)
    assert options["CONFIG_UML_TIME_TRAVEL_SUPPORT"] == "y"
    assert options["CONFIG_UML_RANDOM"] == "n"
    assert options["CONFIG_HZ"] == "250"


def test_add_refuses_a_file_without_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "linux"
    file.write_bytes(b"no kernel")
    right = hashlib.sha256(b"no kernel").hexdigest()
    with pytest.raises(BadInput, match="all 64 hex digits"):
        build.add(file, right[:12])
    with pytest.raises(Damaged, match=f"has the SHA-256 {right}, not 0000"):
        build.add(file, "0" * 64)
    with pytest.raises(BadInput, match="is not a file"):
        build.add(tmp_path / "none", right)
    assert build.plan_add(file, right.upper())["into"] == str(store.own_store() / right)
    assert not store.own_store().exists()
