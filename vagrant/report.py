"""Say what the link between the two machines is: its RTT and its rate, measured through it.

Vagrant starts this when a machine has come up; while not both are up it says nothing. The link is
the one that the server has of itself: a handshake on its port, and a short train of packets.
"""

from __future__ import annotations

import fcntl
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labs.drive.testbed.vagrant import Vagrant
from labs.drive.testbed.vagrant_up import machines_folder, reach, states
from labs.errors import LabError
from labs.guest.bench import Bench
from labs.guest.condition import Condition
from labs.guest.testbed.link import Link

SETTINGS = "/etc/labs/link.conf"
UNITS = {"RATE": "mbit", "DELAY": "ms", "PORT": ""}


def asked(settings: str) -> Link:
    """The link that a server's settings ask for; ValueError for units that are not the file's."""
    lines = [line.partition("=") for line in settings.splitlines() if not line.startswith("#")]
    found = {
        name: float(value.strip().removesuffix(UNITS[name]))
        for name, _, value in lines
        if name in UNITS
    }
    return Link(rate_mbit=found["RATE"], delay_ms=found["DELAY"], port=int(found["PORT"]))


def report(ssh_config: Path) -> str:
    """Measure the link that the server has; one line."""
    with (
        Vagrant(Link(), ssh_config, as_found=True) as testbed,
        tempfile.TemporaryDirectory() as folder,
    ):
        # ssh may answer before the link is laid.
        testbed.server.run(("systemctl", "start", "lab-link"))
        settings = testbed.server.read(SETTINGS).decode()
        try:
            link = asked(settings)
        except (KeyError, ValueError):
            return f"the link is as {SETTINGS} of the server says; it was not measured"
        bench = Bench(testbed, Condition("link", link), Path(folder), lambda line: None)
        found = bench.check_link(link)
    rate = found.measured.rate_mbit
    return (
        f"the link: asked {link.rate_mbit:g} Mbit/s and {link.delay_ms:g} ms; measured "
        f"{'no rate' if rate is None else f'{rate:.0f} Mbit/s'} and "
        f"{found.measured.rtt_ms:.1f} ms: {found.verdict}"
    )


def main() -> int:
    """Of two that are started at once, since both machines came up, the first one speaks."""
    try:
        if states().up:
            with (machines_folder().parent / "labs-report.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                print(report(reach()))
    except BlockingIOError:
        return 0
    except LabError as error:
        print(f"the link was not measured: {error}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
