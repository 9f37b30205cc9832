"""Recorded runs on a system that is not Unix: read, drawn and graded without its modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# What CPython has on Unix only: https://docs.python.org/3/library/unix.html, and "Availability:
# Unix" in the documentation of os and signal.
SCRIPT = """
import os, platform, signal, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "geteuid", "getuid", "getloadavg", "sched_getaffinity", "statvfs", "mkfifo",
             "chown", "lchown", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"):
    delattr(os, name)
del signal.SIGHUP
platform.system = lambda: "Windows"

import labs
from labs.cli.__main__ import main

p = labs.check("buffers", {"TESTBED": "recorded", "ONLY": "default,both"})
assert list(labs.testbeds(p)["Runs here"]) == ["no", "no", "no", "yes"]
study = labs.study(p)
labs.charts.buffers.by_condition(study.results())
labs.charts.buffers.timeline(study.run("default"))
labs.verdicts(study)
assert "netem" in study.commands("both")
names = {"TESTBED": "recorded", "bdp_mib": 2.62}
assert list(labs.grade("00-start-here", names)["Result"])[0] == "right"
assert main(["student", sys.argv[1], "--into", sys.argv[2]]) == 0
assert main(["grade", sys.argv[2]]) == 0
"""


def test_recorded_runs_need_no_unix(tmp_path: Path) -> None:
    notebook = ROOT / "notebooks" / "00-start-here.ipynb"
    argv = [sys.executable, "-c", SCRIPT, str(notebook), str(tmp_path / "student")]
    # Other processes of this machine remove unpacked runs that nobody has locked.
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 of 3 right" in done.stdout
