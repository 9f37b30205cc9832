"""Start libvirt's daemons where nothing else does, and stop them again.

    python3 daemons.py start    when a machine is to start: does nothing where libvirt answers
    python3 daemons.py stop     ends what `start` started, once no machine is left

Where systemd runs, it is systemd that starts libvirt, and nothing is done here. Elsewhere root may
start the daemons; they stay below one process, which also takes leave of each QEMU that ends:
libvirt waits ten seconds for that after every question it asks QEMU, if nobody else does.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

SOCKET = "/run/libvirt/libvirt-sock"
KEEPER = Path("/run/labs-libvirt.pid")
DAEMONS = ("virtlogd", "libvirtd")
PR_SET_CHILD_SUBREAPER = 36
STARTED_S = ENDED_S = 30


def answers() -> bool:
    """Whether libvirt takes connections."""
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(SOCKET)
        except OSError:
            return False
    return True


def start() -> int:
    """Start what is needed; the exit code, with a line that says what was done or lacks."""
    if answers():
        return 0
    programs = [shutil.which(name, path="/usr/sbin:/usr/bin") for name in DAEMONS]
    if None in programs:
        return _say("libvirt is not installed: apt-get install libvirt-daemon-system", 3)
    if Path("/run/systemd/system").is_dir() or os.geteuid():
        return _say("libvirt does not run here: sudo systemctl start libvirtd", 3)
    if os.fork() == 0:
        os.setsid()
        _keep([name for name in programs if name])
    os.wait()
    for _ in range(STARTED_S * 10):
        if answers():
            return _say(
                "started libvirtd and virtlogd, which did not run; they end with the last machine",
                0,
            )
        time.sleep(0.1)
    _end_keeper()
    return _say(f"libvirtd did not start within {STARTED_S} s; see /var/log/libvirt", 3)


def _keep(programs: Sequence[str]) -> None:
    """Leave the terminal, start the daemons, reap until told to end; never returns."""
    if os.fork():
        os._exit(0)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.closerange(3, 256)
    started = [subprocess.Popen((program,), start_new_session=True) for program in programs]

    def leave(number: int, frame: FrameType | None) -> None:
        for one in reversed(started):
            one.send_signal(signal.SIGTERM)
            one.wait()
        KEEPER.unlink(missing_ok=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    KEEPER.write_text(f"{os.getpid()}\n")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            leave(0, None)


def stop() -> int:
    """End the daemons that `start` started, unless a machine is still defined."""
    listed = (
        subprocess.run(
            ("virsh", "-c", "qemu:///system", "list", "--all", "--name"),
            capture_output=True,
            text=True,
        )
        if KEEPER.exists()
        else None
    )
    if listed is None or listed.returncode or listed.stdout.strip():
        return 0
    return _say("stopped libvirtd and virtlogd again", 0) if _end_keeper() else 0


def _end_keeper() -> bool:
    """End the process above the daemons, and so them; whether there was one."""
    try:
        keeper = int(KEEPER.read_text())
        if not Path(f"/proc/{keeper}/cmdline").read_bytes().endswith(b"daemons.py\0start\0"):
            return False
        os.kill(keeper, signal.SIGTERM)
    except (OSError, ValueError):
        return False
    for _ in range(ENDED_S * 10):
        if not KEEPER.exists():
            return True
        time.sleep(0.1)
    return False


def _say(line: str, code: int) -> int:
    print(line, file=sys.stderr)
    return code


def main(argv: Sequence[str]) -> int:
    if list(argv) not in (["start"], ["stop"]):
        return _say("usage: daemons.py start|stop", 2)
    return {"start": start, "stop": stop}[argv[0]]()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
