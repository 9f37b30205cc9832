"""A bulk transfer from the server to the client, for every lab that is about one: the buffers of
its two ends, the sizes that they reached, its flow as the model takes it, and the columns of its
results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from pandas import DataFrame

from labs.drive.result_columns import Note, part
from labs.guest.units import MIB
from labs.read.claims.formulas import farthest
from labs.read.display.format import counted
from labs.read.readings.goodput import Download, sampled_socket
from labs.read.readings.instruments import shaper_drops, under_memory_pressure
from labs.read.readings.run_results import RunResults
from labs.read.runs.run import KEPT_RUNS, Run
from labs.read.stats.arrivals import Arrivals
from labs.read.theory import bdp as theory
from labs.read.theory.bulk import LINK, Transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_interval import Interval, decided, shown
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER, WAKE_UP
from labs.read.theory.windows import granted_bytes, receive_window_bytes, send_bound_bytes

SENDER, RECEIVER = "server", "client"
SETSOCKOPT, SYSCTL, AUTOMATIC = "setsockopt", "sysctl", "automatic"
RMEM, WMEM = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
RMEM_MAX, WMEM_MAX = "net.core.rmem_max", "net.core.wmem_max"
MODERATE, ADV_WIN_SCALE = "net.ipv4.tcp_moderate_rcvbuf", "net.ipv4.tcp_adv_win_scale"
OF_HOST = {SENDER: ("send", WMEM, WMEM_MAX), RECEIVER: ("receive", RMEM, RMEM_MAX)}
"""Each host's buffer: its name, its sysctl, and the core maximum of what setsockopt grants."""
SLOW_START, RECOVERY, AVOIDANCE = "slow start", "fast recovery", "congestion avoidance"
RECOVERING = (2, 3, 4)
"""TCP_CA_CWR, TCP_CA_Recovery and TCP_CA_Loss (include/uapi/linux/tcp.h)."""
HOST_OF = {end: host for host, (end, _, _) in OF_HOST.items()}
TWICE = 2
NEAR = 0.05
"""How close a sample must be to a moment, by the bytes received until then."""
predicted_rate = partial(part, unit="MiB/s", costly=True, per=MIB)


@dataclass(frozen=True)
class Buffer:
    """One end's socket buffer, in bytes.

    `fixed_by` is SETSOCKOPT, SYSCTL, or AUTOMATIC for a buffer that the kernel sizes.
    `requested_bytes` is what was requested of setsockopt, or by the sysctl; None if AUTOMATIC.
    `most_bytes` is the largest size that it can reach.
    """

    fixed_by: str
    requested_bytes: int | None
    most_bytes: int

    @property
    def via_setsockopt(self) -> bool:
        return self.fixed_by == SETSOCKOPT

    @property
    def fixed_bytes(self) -> int | None:
        """The size of a buffer that does not grow, else None."""
        return None if self.fixed_by == AUTOMATIC else self.most_bytes


def sysctl_sizes(words: str) -> tuple[int, int, int]:
    """Minimum, first size and maximum, as tcp_rmem and tcp_wmem have them."""
    smallest, first, largest = map(int, words.split())
    return smallest, first, largest


def buffer_of(run: Run, host: str, requested: int | None) -> Buffer:
    """The buffer of a host, of which the program requested this size, or none."""
    end, name, cap = OF_HOST[host]
    if requested is not None:
        granted = granted_bytes(requested, int(run.sysctl(host, cap)), end)
        return Buffer(SETSOCKOPT, requested, granted)
    _, first, largest = sysctl_sizes(run.sysctl(host, name))
    if first == largest:
        return Buffer(SYSCTL, largest, largest)
    return Buffer(AUTOMATIC, None, max(first, largest))


@dataclass(frozen=True)
class Grant:
    """A size that a program requested of setsockopt for a `send` or `receive` buffer, what it got,
    and the core maximum of its host; all in bytes."""

    end: str
    requested: int
    granted: int
    core_max: int


@dataclass(frozen=True)
class Grants:
    """What setsockopt granted in a run: sizes requested up to the core maximum, as a multiple, the
    one farthest from twice; those above it, in units of it; and the smallest, by socket."""

    times: float | None
    count: int
    smallest: Mapping[str, int]
    capped_times: float | None
    core_max_bytes: int | None
    largest: Grant | None


def grants_of(run: Run) -> Grants:
    """The grants of a run; requests that got the minimum are not counted as multiples."""
    grants = [
        Grant(row.socket, row.requested_bytes, row.granted_bytes or 0, core_max_of(run, row.socket))
        for row in run.buffers
        if row.requested_bytes and row.socket in HOST_OF
    ]
    below = [row for row in grants if row.requested <= row.core_max]
    above = [row for row in grants if row.requested > row.core_max]
    smallest = {row.end: row.granted for row in below if row.granted > TWICE * row.requested}
    times = [
        row.granted / row.requested
        for row in below
        if row.granted <= TWICE * row.requested or row.granted != smallest[row.end]
    ]
    capped = [row.granted / row.core_max for row in above]
    return Grants(
        farthest(TWICE, times) if times else None,
        len(times),
        smallest,
        farthest(TWICE, capped) if {row.end for row in above} == {*HOST_OF} else None,
        min((row.core_max for row in grants), default=None),
        max(grants, key=lambda row: row.requested, default=None),
    )


def core_max_of(run: Run, end: str) -> int:
    """The core maximum of the host with the `send` or the `receive` buffer."""
    host = HOST_OF[end]
    return int(run.sysctl(host, OF_HOST[host][2]))


def recorded(run: Run, host: str, name: str) -> str | None:
    """A sysctl of a host; None if its kernel or its namespace has none."""
    return run.sysctls[host]["after"].get(name)


def flow_of(run: Run, sends: Buffer, receives: Buffer, **of_lab: Any) -> Flow:
    """The transfer of a run over its link as measured, with these buffers, as the model takes it.
    `of_lab` are further fields, or other values of these."""
    measured, moderate = run.link.measured, recorded(run, RECEIVER, MODERATE)
    smallest, first, largest = sysctl_sizes(run.sysctl(RECEIVER, RMEM))
    fields: dict[str, Any] = {
        "rate_mbit": measured.rate_mbit or run.link.asked.rate_mbit or 0.0,
        "rtt_ms": measured.rtt_ms,
        "kernel": run.kernel.release,
        # Without automatic sizing the first size is the largest.
        "tcp_rmem": (smallest, first, first if moderate == "0" else largest),
        "tcp_wmem": sysctl_sizes(run.sysctl(SENDER, WMEM)),
        "sndbuf_bytes": sends.most_bytes if sends.via_setsockopt else None,
        "rcvbuf_bytes": receives.most_bytes if receives.via_setsockopt else None,
        "sndbuf_locked": sends.via_setsockopt,
        "rcvbuf_locked": receives.via_setsockopt,
        "adv_win_scale": int(recorded(run, RECEIVER, ADV_WIN_SCALE) or 1),
    }
    return Flow(**(fields | of_lab))


def fills_at_once(flow: Flow) -> bool:
    """Whether less than a segment in flight fills the link, so that no buffer limits a flow."""
    return theory.bdp_bytes(flow.rate_mbit, flow.rtt_ms) < flow.mss_bytes


def predicted(flow: Flow, transfer_bytes: int) -> Transfer:
    """What the model says of a flow; a writer that waits for room is limited by its send buffer."""
    if fills_at_once(flow):
        line = theory.line_goodput_bytes_s(flow.rate_mbit)
        return Transfer(line, line, 0.0, LINK, (), {})
    transfer = decided(flow, transfer_bytes)
    return replace(transfer, bound=SEND_BUFFER) if transfer.bound == WAKE_UP else transfer


def usable_bytes(flow: Flow) -> tuple[int, int]:
    """What the receiver's and the sender's largest buffer let be in flight, each on its own; 0 if
    no buffer limits the flow."""
    if fills_at_once(flow):
        return 0, 0
    receives = receive_window_bytes(
        flow.rcvbuf_bytes or max((flow.tcp_rmem or (0,))[1:]),
        flow.kernel,
        adv_win_scale=flow.adv_win_scale,
        offloads=flow.offloads,
        locked=flow.rcvbuf_locked,
    )
    sends = flow.sndbuf_bytes or max((flow.tcp_wmem or (0,))[1:])
    return receives, send_bound_bytes(sends, flow.kernel)


def bdp_bytes(run: Run) -> float | None:
    """The bandwidth-delay product of the link as it was measured; None without rate or delay."""
    measured = run.link.measured
    if measured.rate_mbit is None:
        return None
    return theory.bdp_bytes(measured.rate_mbit, measured.rtt_ms) or None


@dataclass(frozen=True)
class Window:
    """The largest sizes that a transfer reached, in bytes, and how its sender spent the time.

    For the data in flight also the median over the samples: the usual state, without bursts.
    `limited_pct` is the share of the busy time in which the receiver's window or the sender's
    own buffer kept it from sending more (tcpi_rwnd_limited, tcpi_sndbuf_limited; net/ipv4/tcp.c
    tcp_get_info_chrono_stats()).
    """

    in_flight_bytes: int
    usually_in_flight_bytes: int
    offered_bytes: int
    congestion_bytes: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    limited_pct: dict[str, float]


@lru_cache(maxsize=KEPT_RUNS)
def window(run: Run) -> Window | None:
    """Read both hosts' samples; None for a transfer that was over before the first sample.

    Those of the last runs are cached.
    """
    sender = sampled_socket(run, SENDER, "bytes_acked")
    receiver = sampled_socket(run, RECEIVER, "bytes_received")
    if sender.empty or receiver.empty:
        return None
    mss = sender["snd_mss_bytes"]
    in_flight = sender["unacked_segments"] * mss
    return Window(
        in_flight_bytes=int(in_flight.max()),
        usually_in_flight_bytes=int(in_flight.median()),
        offered_bytes=int(sender["snd_wnd_bytes"].max()) if "snd_wnd_bytes" in sender else 0,
        congestion_bytes=int((sender["snd_cwnd_segments"] * mss).max()),
        send_buffer_bytes=int(sender["sndbuf_bytes"].max()),
        receive_buffer_bytes=int(receiver["rcvbuf_bytes"].max()),
        limited_pct=limited_pct(sender),
    )


CLOCKS = {"busy_time_us": "", "rwnd_limited_us": RECEIVE_WINDOW, "sndbuf_limited_us": SEND_BUFFER}
"""What limited a sender, by the columns of tcp_info that count the time: the first is all of it."""


def limited_pct(sender: DataFrame) -> dict[str, float]:
    """What limited a sender, in per cent of the busy time at the last sample of the transfer."""
    last = sender[sender["busy_time_us"].notna()].tail(1)
    if last.empty or not last["busy_time_us"].iloc[0]:
        return {}
    busy = float(last["busy_time_us"].iloc[0])
    return {
        name: 100 * float(last[column].iloc[0]) / busy for column, name in CLOCKS.items() if name
    }


def lost_s(rows: DataFrame, rate_mbit: float | None) -> Mapping[str, float]:
    """How much longer a transfer took than a full line would, by the phase of its sender: recovery
    by tcpi_ca_state, slow start by cwnd < ssthresh; empty if the sender was not sampled."""
    if rows.empty or "ca_state" not in rows or not rate_mbit:
        return {}
    slow_start = rows["snd_cwnd_segments"] < rows["snd_ssthresh_segments"]
    phases = slow_start.map({True: SLOW_START, False: AVOIDANCE})
    phases = phases.mask(rows["ca_state"].isin(RECOVERING), RECOVERY)
    # What happens until the next sample belongs to the phase of this one.
    took_s = rows["at_ns"].diff().shift(-1) / 1e9
    lost = took_s - rows["bytes_acked"].diff().shift(-1) / theory.line_goodput_bytes_s(rate_mbit)
    by_phase = {
        phase: float(lost[phases == phase].sum()) for phase in (SLOW_START, RECOVERY, AVOIDANCE)
    }
    return by_phase | {"in all": sum(by_phase.values())}


def ends_of(rows: DataFrame, column: str) -> dict[str, int]:
    """The first, the last, the smallest and the largest value; empty if nothing was sampled."""
    values = [int(value) for value in rows[column].dropna()] if column in rows else []
    if not values:
        return {}
    return {"first": values[0], "last": values[-1], "smallest": min(values), "largest": max(values)}


def after_receiving(rows: DataFrame, column: str, received: int) -> float | None:
    """A value at the last sample of a receiver with at most `received` bytes; None if that sample
    is too early for a window that still grows."""
    if column not in rows:
        return None
    until = rows[(rows["bytes_received"] <= received * (1 + NEAR)) & rows[column].notna()]
    if until.empty:
        return None
    last, most = until.iloc[-1], rows["rcv_ssthresh_bytes"].max()
    settled = most * (1 - NEAR) <= last["rcv_ssthresh_bytes"]
    near = abs(last["bytes_received"] / received - 1) <= NEAR
    return float(last[column]) if settled or near else None


class BulkTransfer(RunResults):
    """The figures of a run with one bulk transfer; None where it has none. The properties that
    raise NotImplementedError are the lab's."""

    predict: Callable[[Flow, int], Transfer] = staticmethod(predicted)

    @property
    def received(self) -> Download | Arrivals | None:
        """What arrived; None for a run without a transfer whose speed has a meaning."""
        raise NotImplementedError

    @property
    def flow(self) -> Flow:
        """The transfer as the model takes it."""
        raise NotImplementedError

    @property
    def modelled_bytes(self) -> int:
        """How much the model is to transfer."""
        raise NotImplementedError

    @property
    def not_modelled(self) -> str | None:
        """What the run has that the model does not; empty if the model knows all of it, None for a
        run without a transfer."""
        raise NotImplementedError

    @property
    def samples(self) -> Mapping[str, DataFrame]:
        """The samples of each host's socket; empty tables without a transfer."""
        counters = {RECEIVER: "bytes_received", SENDER: "bytes_acked"}
        return {
            host: DataFrame()
            if self.not_modelled is None
            else sampled_socket(self.run, host, counter)
            for host, counter in counters.items()
        }

    @cached_property
    def window(self) -> Window | None:
        """The largest sizes over the samples."""
        return None if self.not_modelled is None else window(self.run)

    @property
    def no_prediction(self) -> str | None:
        """Why a transfer has no prediction; None if it has one."""
        if self.not_modelled == "":
            return self.predict(self.flow, self.modelled_bytes).cannot_say or None
        return self.not_modelled

    @cached_property
    def prediction(self) -> Transfer | None:
        if self.not_modelled is None or self.no_prediction:
            return None
        return self.predict(self.flow, self.modelled_bytes)

    @cached_property
    def interval(self) -> Interval | None:
        """How far the result may lie from the prediction; None where single packets and chance do
        not decide."""
        if self.prediction is None or fills_at_once(self.flow):
            return None
        return shown(self.flow, self.modelled_bytes)

    # A lab says what its mean is over; here it has its place, before the steady goodput.
    goodput_mib_s = part(
        "goodput_bytes_s", "goodput of the whole transfer", unit="MiB/s", headline=True, per=MIB
    )
    steady_mib_s = part(
        "steady_bytes_s",
        "goodput over the last third of the time; none if too little is known of it",
        unit="MiB/s",
        predicted_by="predicted_mib_s",
        steady=True,
        per=MIB,
    )
    predicted_mib_s = predicted_rate("prediction.steady_bytes_s", "predicted steady goodput")
    predicted_low_mib_s = predicted_rate(
        "interval.steady_bytes_s.0",
        "lowest prediction of the steady goodput, where single packets or chance decide; of random "
        "losses, that of 95 % of the draws",
    )
    predicted_high_mib_s = predicted_rate(
        "interval.steady_bytes_s.1", "highest prediction of the steady goodput, likewise"
    )
    bound = part("prediction.bound", "what limits the steady goodput in theory", costly=True)
    cannot_say = part("no_prediction", "why there is no prediction", hidden=True, costly=True)
    goodput_bytes_s = part(
        "received.goodput_bytes_s", "as goodput_mib_s", unit="bytes/s", hidden=True
    )
    steady_bytes_s = part("received.steady_bytes_s", "as steady_mib_s", unit="bytes/s", hidden=True)

    def notes(self) -> Iterator[Note]:
        """Also packets that the shaper dropped, and little memory."""
        yield from super().notes()
        drops = 0 if self.run.link.asked.loss_pct else shaper_drops(self.run)
        if drops:
            text = f"the shaper's queue overflowed and dropped {counted(drops, 'packet')}"
            yield Note("shaper_drops", text)
        if under_memory_pressure(self.run):
            yield Note("memory_pressure", "TCP came under memory pressure")


def in_mib(bytes_s: float | None) -> float | None:
    return None if bytes_s is None else bytes_s / MIB
