"""The settings of a condition of the lab `stack`."""

from __future__ import annotations

from dataclasses import dataclass

APART, SAME, FREE = "apart", "same", "free"
NONE, IDLE, CONNTRACK = "none", "idle", "conntrack"
DEFAULT, OFF, GRO = "default", "off", "gro"
EPOLL, NGINX = "epoll_server", "nginx"
WRK, VEGETA = "wrk", "vegeta"
BLOCKING_MS = 1000
"""The timeout of epoll_wait(2) with which the article's server blocks."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a condition; by default the article's base: one thread polls, one queue, no
    netfilter rules.

    `timeout_ms` is that of epoll_wait(2); 0 polls. `pinning`: server and load on two CPUs
    (`apart`), on one (`same`), or wherever the scheduler puts them (`free`). `rules` are nftables
    rules of the server: `none`, base chains without rules (`idle`), a number of rules that no
    packet matches, or `conntrack`. `offloads`: the device's own, all off, or with GRO. `rx_usecs`
    None leaves the device as it is. With `deferred_irqs` a timer polls the device
    after it received packets, and its interrupts stay masked. `interrupts`: those of the device on
    the CPU of the server (`same`), on another one (`apart`), or as they are (`free`). `rps` `same`
    moves the processing of received packets to the CPU of the server (RPS), which also works with
    devices that have no interrupts. `awake`: a program of the lowest priority (SCHED_IDLE) spins on
    each CPU of the server, so that none of them sleeps. `rate_per_s` 0 is a closed loop: each
    connection sends its next request after a response. Otherwise `load` sends at that rate.
    """

    server: str = EPOLL
    timeout_ms: int = 0
    threads: int = 1
    busy_poll_us: int = 0
    work_us: int = 0
    pinning: str = APART
    rules: str = NONE
    offloads: str = DEFAULT
    rx_usecs: int | None = None
    queues: int = 1
    deferred_irqs: bool = False
    interrupts: str = FREE
    rps: str = FREE
    awake: bool | None = None
    connections: int = 1
    load: str = WRK
    rate_per_s: int = 0
    duration_s: int = 1
