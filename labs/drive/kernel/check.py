"""Check a kernel before it is kept: it boots, it shapes, and a receive buffer fills as published.

The figures of article 4 hang on the size of one packet in memory, which a missing option or a
changed structure moves without any error; so they are what a build is held to.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from labs.drive.kernel.boot import EPOCH_NS, PATH, boot
from labs.drive.kernel.guest_root import guest_root, kept_root
from labs.drive.kernel.selftest import DELAY_MS
from labs.drive.kernel.versions import series_of
from labs.drive.programs.init import INSIDE_CODE, INSIDE_RUN, PYTHON
from labs.errors import Missing, RunFailed

RTT_TOLERANCE = 0.01
MEMORY_MIB = 1024

# Figures by series, in bytes; keys as the self-test gives them, a figure of a row as "row.figure".
# 6.1: article 4's own, skmem_r 73,984 and Recv-Q 62,464 at scale 0, 56 KiB queued at scale 1.
# 6.12: tcp_adv_win_scale has no effect since 6.6 (net/ipv4/tcp_input.c:tcp_measure_rcv_mss takes
# the ratio from a packet), so both rows are alike; measured with the distribution's options.
# packet_overhead: sk_buff, 256, and its head: a kmalloc of 1,024 on 6.1; on 6.12 net/core/skbuff.c
# SKB_SMALL_HEAD_SIZE, 704 with the MAX_HEADER of a distribution's kernel.
EXPECTED: dict[str, dict[str, int]] = {
    "6.1": {
        "packet_overhead": 1_280,
        "adv_win_scale_0.skmem_r": 73_984,
        "adv_win_scale_0.recv_q": 62_464,
        "adv_win_scale_1.recv_q": 57_344,
    },
    "6.12": {
        "packet_overhead": 960,
        "adv_win_scale_0.skmem_r": 62_208,
        "adv_win_scale_0.recv_q": 58_368,
        "adv_win_scale_1.recv_q": 58_368,
    },
}


def check(program: Path, release: str = "") -> dict[str, Any]:
    """Boot a kernel program twice, measure in it, and return what was measured.

    Keys: `release`, `hz`, `virtual_time`, `memory_kib`, `random` (the first bytes drawn),
    `differs` (the keys in which the boots differ: none), `rtt_ms` (of a link of 200 ms),
    `packet_overhead` (bytes in memory beside a sent packet's data), and for
    tcp_adv_win_scale 0 and 1 `skmem_r`, `skmem_rb`, `recv_q` in bytes. Series without published
    figures are measured, not judged on them. RunFailed, with the figures, if the kernel does not
    boot, shape, repeat or fill as it should, or is not the `release` that it should be.
    """
    measured = measure(program)
    if faults := judge(measured, release):
        raise failure(faults)
    return measured


def failure(faults: tuple[str, ...]) -> RunFailed:
    """The error that says in what a kernel failed."""
    return RunFailed(
        f"this kernel fails its check: {'; '.join(faults)}; an option or a patch of "
        "its build changed something, see labs/drive/kernel/fragment.config"
    )


def measure(program: Path) -> dict[str, Any]:
    """What the self-test measures inside a kernel program, in two boots that should be alike."""
    needs()
    first, second = _measure_once(program), _measure_once(program)
    return first | {"differs": sorted(key for key in first if first[key] != second.get(key))}


def _measure_once(program: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="labs-check-") as staging:
        argv = (
            PYTHON,
            "-I",
            "-S",
            f"{INSIDE_CODE}/selftest.py",
            f"{INSIDE_RUN}/measured.json",
            str(EPOCH_NS // 10**9),
        )
        try:
            boot(
                program,
                root=_root(),
                staging=Path(staging),
                code=Path(__file__).parent,
                argv=argv,
                memory_mib=MEMORY_MIB,
            )
        except RunFailed as error:
            raise RunFailed(f"this kernel fails its check: {error}") from None
        return dict(json.loads((Path(staging) / "measured.json").read_text("utf-8")))


TOOLS = {"python3": "python3", "ip": "iproute2", "tc": "iproute2", "ethtool": "ethtool"}


def needs() -> None:
    """Missing, naming the packages, if a tool of the check is not on this machine."""
    absent = sorted({TOOLS[name] for name in TOOLS if shutil.which(name, path=PATH) is None})
    if absent:
        raise Missing(
            f"to check a kernel this machine lacks {', '.join(absent)}; on Debian, as "
            f"root: apt-get install {' '.join(absent)}"
        )


def _root() -> Path:
    """The root of the guest that is measured in."""
    found = {name: Path(shutil.which(name, path=PATH) or name) for name in TOOLS}
    interpreter = found.pop("python3")
    return kept_root(guest_root(found, interpreter), interpreter)


def judge(measured: dict[str, Any], release: str = "") -> tuple[str, ...]:
    """What in a measurement is not as it should be; empty if all is well."""
    faults = []
    if release and measured["release"] != release:
        faults.append(f"it calls itself {measured['release']}, not {release}")
    if not measured["virtual_time"]:
        faults.append("its clock is not virtual (UML_TIME_TRAVEL_SUPPORT)")
    if measured["differs"]:
        faults.append(f"two boots differ in {', '.join(measured['differs'])}")
    if abs(measured["rtt_ms"] - DELAY_MS) > RTT_TOLERANCE * DELAY_MS:
        faults.append(f"a link of {DELAY_MS} ms has a round trip of {measured['rtt_ms']} ms")
    figures = flat(measured)
    for name, wanted in EXPECTED.get(series_of(measured["release"]), {}).items():
        if figures[name] != wanted:
            faults.append(f"{name} is {figures[name]:,}, should be {wanted:,}")
    return tuple(faults)


def compared(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """The figures as rows: what was measured beside what should come out (None: not judged)."""
    wanted = {"rtt_ms": DELAY_MS, **EXPECTED.get(series_of(measured["release"]), {})}
    return [
        {"figure": name, "measured": value, "expected": wanted.get(name)}
        for name, value in flat(measured).items()
    ]


def flat(measured: dict[str, Any]) -> dict[str, Any]:
    """The figures of a measurement by name, those of a row as "row.figure"."""
    figures = {name: measured[name] for name in ("rtt_ms", "packet_overhead")}
    for row, values in measured.items():
        if isinstance(values, dict):
            figures |= {f"{row}.{name}": value for name, value in values.items()}
    return figures


def judged(release: str) -> bool:
    """True if figures are published for this release's series."""
    return series_of(release) in EXPECTED
