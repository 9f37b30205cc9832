"""What is inside a guest: what it sees of this machine, what it may write, and its environment."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from labs.drive.kernel.boot import boot
from labs.errors import RunFailed
from labs.guest.programs.init import INSIDE_BOOT, INSIDE_CODE, INSIDE_RUN, PYTHON
from tests.virtual.booting import MEMORY_MIB, ON_EACH_KERNEL, ROOT, inside
from tests.virtual.roots import root_with


def test_boot_shows_nothing_of_this_machine_and_lets_only_staging_be_written(
    kernel: Path, memory: Path, staging: Path, canaries: list[Path]
) -> None:
    lines = inside(
        kernel,
        staging,
        "".join(f"cat {one}; ls {one.parent}; " for one in canaries)
        + f"""
        ls /home /opt /usr/share /usr/local
        for one in /new {INSIDE_CODE}/new {INSIDE_BOOT}/argv; do echo x >$one; done
        rm {INSIDE_CODE}/README.md /usr/bin/ip
        for made in /run /tmp /var/log {INSIDE_RUN}; do echo kept >$made/labs-made; done
        pwd; cat /tmp/labs-made; cat /proc/mounts >mounts""",
    )
    assert "sings" not in lines and ROOT.joinpath("README.md").exists()
    hidden = [*canaries, *("/home", "/opt", "/usr/share", "/usr/local")]
    for what in (str(one) for one in hidden):
        assert any(what in line and "No such file or directory" in line for line in lines), what
    for what in ("/new", f"{INSIDE_CODE}/new", INSIDE_BOOT, "README.md", "/usr/bin/ip"):
        assert any(what in line and "Read-only file system" in line for line in lines), what
    assert INSIDE_RUN in lines and "kept" in lines
    assert sorted(path.name for path in staging.iterdir()) == ["labs-made", "mounts"]
    assert not any(Path(folder, "labs-made").exists() for folder in ("/run", "/tmp", "/var/log"))
    mounts = [line.split() for line in (staging / "mounts").read_text().splitlines()]
    of_the_host = {
        where: options.split(",")[0] for _, where, kind, options, *_ in mounts if kind == "hostfs"
    }
    assert of_the_host == {"/": "ro", INSIDE_BOOT: "ro", INSIDE_RUN: "rw", INSIDE_CODE: "ro"}


@ON_EACH_KERNEL
@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t hostfs none /tmp/more",
        "mount -t hostfs none /tmp/more -o {canary}",
        "umount -l {code}; mount -t hostfs none /tmp/more -o {canary}",
        "mount -o remount,rw none /",
        "mount -o remount,rw none {code}",
        "mount -o remount,rw none {boot}",
    ],
)
def test_boot_lets_root_inside_open_no_more_of_this_machine(
    kernel: Path, memory: Path, staging: Path, canaries: list[Path], attempt: str
) -> None:
    words = attempt.format(canary=canaries[0].parent, code=INSIDE_CODE, boot=INSIDE_BOOT)
    lines = inside(
        kernel,
        staging,
        f"mkdir /tmp/more; {words}; echo it ended with $?; ls /tmp/more | wc -l;"
        f" echo x >/new; echo x >{INSIDE_CODE}/new; echo x >{INSIDE_BOOT}/new; true",
        root=root_with("wc"),
    )
    assert "it ended with 32" in lines and "0" in lines  # mount(8): mount failure
    assert not list(canaries[0].parent.glob("new")) and not (ROOT / "new").exists()


def test_boot_gives_a_constant_environment_and_the_words(
    kernel: Path, memory: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABS_TEST_STRAY", "1")
    words = ("", "two words", "$HOME", "a\nb", "grüße", "'")
    boot(
        kernel,
        root=root_with(),
        staging=staging,
        code=ROOT,
        memory_mib=MEMORY_MIB,
        argv=("/bin/bash", "-c", 'env >env; printf "%s\\0" "$@" >words', *("bash", *words)),
    )
    assert (staging / "words").read_bytes().split(b"\0")[:-1] == [word.encode() for word in words]
    known = dict(line.split("=", 1) for line in (staging / "env").read_text().splitlines())
    for name in ("PWD", "SHLVL", "_", "TERM", "OLDPWD"):  # the shell's own
        known.pop(name, None)
    assert known == {
        "HOME": "/tmp",
        "PATH": "/usr/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }


def test_boot_gives_whole_lines(kernel: Path, memory: Path, staging: Path) -> None:
    spin = "for ((i = 0; i < 30000; i++)); do :; done"
    words = ("gr\\xc3", "\\xbc\\xc3\\x9fe, ", "whole\\n", "last")
    lines = inside(kernel, staging, "".join(f"printf '{word}'; {spin}; " for word in words))
    assert "grüße, whole" in lines
    assert "lastlabs-exit 0" in lines


PYTHON_ENDINGS = {
    "print(*sys.argv, __name__)": ("-c one two __main__", None),
    "raise SystemExit(7)": ("", "exit code 7"),
    "raise SystemExit('a word')": ("a word", "exit code 1"),
    "1 / 0": ("ZeroDivisionError: division by zero", "exit code 1"),
    "os.kill(os.getpid(), 9)": ("", "exit code 137"),
    "print(os.getpid() == 1, sys.flags.isolated, sys.flags.no_site)": ("False 1 1", None),
}


@pytest.mark.parametrize("code", PYTHON_ENDINGS)
def test_boot_of_python_with_code_ends_as_a_start_of_it_would(
    kernel: Path, memory: Path, staging: Path, code: str
) -> None:
    """It is a fork of the first process. The words after the code are its arguments."""
    said, failure = PYTHON_ENDINGS[code]
    code = f"import os, sys; {code}"
    lines: list[str] = []
    with pytest.raises(RunFailed, match=failure) if failure else contextlib.nullcontext():
        boot(
            kernel,
            root=root_with(),
            staging=staging,
            code=ROOT,
            memory_mib=MEMORY_MIB,
            argv=(PYTHON, "-I", "-S", "-c", code, "one", "two"),
            on_line=lines.append,
        )
    assert not said or said in lines
    if failure != "exit code 137":
        started = subprocess.run(
            (sys.executable, "-I", "-S", "-c", code, "one", "two"), capture_output=True, text=True
        )
        assert (not said) or said in (started.stdout + started.stderr).splitlines()
        assert (started.returncode == 0) == (failure is None)


USUAL_LIMITS = """
import sys
sys.path.insert(0, "/run/labs/code")
from labs.guest.testbed.link import Link
from labs.guest.testbed.virtual import LIMITS, ORPHANS, open_testbed
with open_testbed(Link(), None) as testbed:
    print({path: host.sysctl(path) for path in LIMITS for host in testbed.hosts().values()})
    print({path: testbed.server.sysctl(path) for path in ORPHANS})
"""


@ON_EACH_KERNEL
def test_the_table_of_connections_is_small_and_the_limits_of_tcp_are_those_of_a_large_one(
    kernel: Path, memory: Path, staging: Path
) -> None:
    """A kernel has half as many TIME_WAIT sockets and orphans as buckets, and a 128th as many
    connections in SYN_RECV (net/ipv4/tcp_ipv4.c tcp_sk_init(), tcp.c tcp_init())."""
    (staging / "limits.py").write_text(USUAL_LIMITS)
    lines = inside(kernel, staging, f"{PYTHON} -I -S {INSIDE_RUN}/limits.py")
    assert any(line.startswith("TCP established hash table entries: 1024 ") for line in lines)
    half, part = str(65536 // 2), str(65536 // 128)
    limits = {"net/ipv4/tcp_max_tw_buckets": half, "net/ipv4/tcp_max_syn_backlog": part}
    assert str(limits) in lines
    assert str({"net/ipv4/tcp_max_orphans": half}) in lines
