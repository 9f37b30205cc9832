"""What a run of the lab `buffers` was asked: its buffers, and what else its condition set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.read.runs.run import Run
from labs.read.theory.windows import granted_bytes

MIB = 1 << 20
RMEM, WMEM = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
SYSCTL, SETSOCKOPT = "sysctl", "setsockopt"
# Longer names first: the second series begins like the first.
SERIES = {"sweep-set-": SETSOCKOPT, "sweep-": SYSCTL}
ARTICLE, SWEEP, SHARE, LOSS, REQUESTS = "article", "sweep", "share", "loss", "requests"
PARTS = {
    "sweep-": SWEEP,
    "adv-": SHARE,
    "loss-": LOSS,
    "setsockopt": REQUESTS,
    "by-hand": REQUESTS,
    "httping": REQUESTS,
}


@dataclass(frozen=True)
class Buffer:
    """One end's buffer of a download.

    `requested_bytes` is what was asked of setsockopt, or the one size that the sysctl has; None
    for a buffer that the kernel sizes. `most_bytes` is what it may come to. `by_hand`: by
    setsockopt.
    """

    requested_bytes: int | None
    most_bytes: int
    by_hand: bool

    @property
    def fixed_bytes(self) -> int | None:
        """The size of a buffer that does not grow, else None."""
        return None if self.requested_bytes is None else self.most_bytes


def is_download(run: Run) -> bool:
    """Whether the run fetches a file; others ask for buffers, or time a request."""
    return bool(_settings(run).get("steps", "download") == "download")


def receive_buffer(run: Run) -> Buffer:
    """The client's buffer."""
    return _buffer(run, "client", "client_rcvbuf_bytes", "receive", RMEM, "net.core.rmem_max")


def send_buffer(run: Run) -> Buffer:
    """The server's buffer."""
    return _buffer(run, "server", "server_sndbuf_bytes", "send", WMEM, "net.core.wmem_max")


def _buffer(run: Run, host: str, setting: str, socket: str, name: str, cap: str) -> Buffer:
    values = run.sysctls[host]["after"]
    wish = _settings(run).get(setting)
    if wish is not None:
        granted = granted_bytes(int(wish), int(values[cap]), socket)
        return Buffer(int(wish), granted, True)
    _, first, largest = three(values[name])
    return Buffer(largest if first == largest else None, max(first, largest), False)


def series(run: Run) -> str | None:
    """Which series of the sweep the run is a point of: `sysctl`, `setsockopt`; None for others."""
    return next((name for begin, name in SERIES.items() if run.condition.startswith(begin)), None)


def part(condition: str) -> str:
    """Which part of the lab a condition belongs to; the article's own rows are `article`."""
    return next((name for begin, name in PARTS.items() if condition.startswith(begin)), ARTICLE)


def adv_win_scale(run: Run) -> int | None:
    """What tcp_adv_win_scale was on the client; kernels from 6.6 on keep it and ignore it."""
    value = run.sysctls["client"]["after"].get("net.ipv4.tcp_adv_win_scale")
    return None if value is None else int(value)


def congestion_control(run: Run) -> str | None:
    """The server's congestion control."""
    return run.sysctls["server"]["after"].get("net.ipv4.tcp_congestion_control")


def draw(run: Run) -> int | None:
    """Which draw of chance the run is, of those that differ in nothing but the seed."""
    value = _settings(run).get("draw")
    return None if value is None else int(value)


def three(words: str) -> tuple[int, int, int]:
    """Minimum, first size and maximum, as tcp_rmem and tcp_wmem have them."""
    smallest, first, largest = map(int, words.split())
    return smallest, first, largest


def _settings(run: Run) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = run.inputs["condition"]["settings"]
    return settings


def parameter(run: Run, name: str) -> float | None:
    """The size of the file or of the raised buffer, in MiB; None for what the run does not say."""
    condition = run.inputs["condition"]
    if name == "transfer_mib":
        return float(condition["settings"]["transfer_bytes"]) / MIB
    if name == "buffer_mib":
        raised = condition["sysctls"].get("server", {}).get(WMEM)
        return None if raised is None else int(raised.split()[-1]) / MIB
    return None
