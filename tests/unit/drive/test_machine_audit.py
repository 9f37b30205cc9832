"""The audit of the machine that runs the tests: enough items, as any user, and nothing written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labs.drive import machine_audit as program
from labs.read.audit.machine import audit
from labs.read.audit.raw import open_raw

SOURCE = Path(program.__file__)
NOBODY = 65534
# A new namespace with `unshare -r` maps its own user; these files are of that process alone.
OF_THE_PROCESS = re.compile(r"/proc/(self|\d+)/(setgroups|uid_map|gid_map)|/dev/(null|tty)")
OPENED = re.compile(r'\bopen(?:at)?2?\((?:[^,"]+, )?"([^"]*)", ([^,)]*)')
CHANGING = (
    "creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,symlink,symlinkat,link,"
    "linkat,truncate,ftruncate,chmod,fchmodat,chown,fchownat,mknod,mknodat,init_module,"
    "finit_module,delete_module,adjtimex,clock_adjtime,settimeofday,clock_settime,sethostname"
)


def as_a_user(*argv: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as an ordinary user with the program's source on standard input."""
    drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    first = drop if os.geteuid() == 0 else ()
    return subprocess.run(
        (*first, *argv),
        input=SOURCE.read_text(encoding="utf-8"),
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
        check=True,
        env={"PATH": program.SYSTEM_PATH, "LC_ALL": "C"},
        **more,
    )


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that every user may start."""
    found = shutil.which("python3", path=program.SYSTEM_PATH)
    if found is None and os.geteuid() == 0:
        pytest.skip("the system has no python3 that another user could start")
    return found or sys.executable


def test_collect_as_an_ordinary_user_gives_fifty_items(python: str) -> None:
    found = json.loads(as_a_user(python, "-I", "-S", "-").stdout)
    items = audit(open_raw(found, "the audit of this machine"))
    assert len(items) >= 50
    assert found["facts"]["root"] is False
    known = {one.name: one for one in items if one.value is not None}
    assert known["kernel.release"].value == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert known["cpu.online"].value
    assert len(known) >= 50


def test_collect_fits_into_host_json(python: str) -> None:
    from labs.drive.record.stored_files import MOST_JSON_BYTES, parse

    said = as_a_user(python, "-I", "-S", "-").stdout
    assert isinstance(parse(said.encode()), dict)
    assert len(said) < MOST_JSON_BYTES / 4


def test_collect_twice_finds_the_same_settings(python: str) -> None:
    from labs.read.audit.differences import differences

    first, second = (
        open_raw(json.loads(as_a_user(python, "-I", "-S", "-").stdout), "it") for _ in range(2)
    )
    assert differences(first, second) == []


@pytest.mark.program("strace")
def test_collect_writes_nothing(python: str, tmp_path: Path) -> None:
    """Every file that the program and its tools open is opened for reading, and no system call
    that changes a file, a module or a clock is made, except adjtimex with modes 0."""
    traced = tmp_path / "trace"
    strace = ("strace", "-f", "-qq", "-o", str(traced), "-e")
    calls = f"trace=open,openat,openat2,{CHANGING}"
    done = subprocess.run(
        (*strace, calls, python, "-I", "-S", "-"),
        input=SOURCE.read_text(encoding="utf-8"),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert len(audit(open_raw(json.loads(done.stdout), "it"))) >= 50
    lines = traced.read_text(encoding="utf-8", errors="replace").splitlines()
    opened = [found for line in lines if (found := OPENED.search(line))]
    assert len(opened) > 200
    written = [
        found[1]
        for found in opened
        if re.search("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", found[2])
        and not OF_THE_PROCESS.fullmatch(found[1])
    ]
    assert written == []
    changed = [line for line in lines if not OPENED.search(line) and "(" in line]
    assert [line for line in changed if "{modes=0," not in line and "exited" not in line] == []


def test_words_of_no_text() -> None:
    assert program.words("", ("mtu",)) == ""
    assert program.words("mtu 1500 qdisc fq \\ mtu", ("mtu",)) == "mtu \nmtu 1500\n"


def test_shape_of_rules_leaves_out_the_rules() -> None:
    text = (
        "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority 0;\n"
        "\t\tip saddr 192.0.2.1 drop\n\t\taccept\n\t}\n}\n"
    )
    assert program.shape_of_rules(text) == (
        "table inet filter {\nchain\ntype filter hook input priority 0;\nrules 2\n"
    )
