"""Advice on buffers in words: sizes, limits, memory, and sysctl lines to paste."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from textwrap import fill
from typing import Any

from labs.drive.kernel.versions import SERIES
from labs.drive.units import GIB, MIB
from labs.read.display.format import in_three_digits, size_in_words, terminal_table
from labs.read.display.rich_output import Table, Text
from labs.read.theory.advice import (
    FULL,
    SEND_BUFFERS_STOP_SHARE,
    WINDOWS_STOP_SHARE,
    Advice,
    Reached,
    advise,
    between_bytes_s,
    loss_based_bytes_s,
    reached,
)
from labs.read.theory.bulk import LINK, Limit
from labs.read.theory.bulk_flow import CUBIC
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER, WAKE_UP
from labs.read.theory.defaults import DEFAULT_WMEM
from labs.read.theory.mathis import BBR_TOLERATES_PCT, FOLLOWS_MATHIS
from labs.read.theory.windows import RATIO_SINCE, series

ENOUGH = "the default is enough"
WIDTH = 100
DERIVED = (
    *("receive_suffices", "send_suffices", "receive_request_bytes", "send_request_bytes"),
    "core_max_bytes",
)
SIZES = (
    *("receive_bytes", "receive_alone_bytes", "receive_locked_bytes", "send_bytes"),
    *("tcp_rmem", "tcp_wmem", "receive_suffices", "send_suffices", "receive_request_bytes"),
    *("send_request_bytes", "receivers_memory_bytes", "senders_memory_bytes", "sysctl"),
)
"""What has no value in JSON if there is no rule for the sizes."""


def describe(advice: Advice, connections: int = 1) -> str:
    """The advice for a terminal: the path, the sizes, what limits the defaults, memory, sysctls."""
    defaults = reached(advice)
    return "\n".join(
        [
            describe_path(advice),
            f"BDP {size_in_words(advice.bdp_bytes)}; a full link carries "
            f"{in_three_digits(advice.line_bytes_s / MIB)} MiB/s of payload",
            "",
            *([fill(describe_loss(advice), WIDTH), ""] if advice.loss_pct else []),
            *([fill(describe_rule(advice), WIDTH), ""] if _chosen(advice) else []),
            *([] if advice.holds_bdp is None else _sizes(advice, defaults, connections)),
        ]
    ).rstrip()


def _sizes(advice: Advice, defaults: Reached, connections: int) -> list[str]:
    return [
        terminal_table(size_rows(advice), tuple(size_rows(advice)[0])),
        "",
        f"default buffers: {describe_reached(defaults, advice)}",
        *_limits(defaults),
        *filter(None, [fill(describe_reason(advice, defaults), WIDTH)]),
        "",
        fill(describe_memory(advice, connections), WIDTH),
        "",
        *to_select(advice),
        to_paste(advice),
        "",
        core_to_paste(advice),
    ]


def describe_prediction(advice: Advice, flow: Reached) -> str:
    """What a flow reaches with buffers of given sizes, and why."""
    return "\n".join(
        [
            describe_path(advice),
            f"{describe_sizes(flow)}: {describe_reached(flow, advice)}",
            *_limits(flow),
            fill(describe_reason(advice, flow), WIDTH),
        ]
    ).rstrip()


def describe_for_notebook(advice: Advice, here: Reached, connections: int = 1) -> str:
    """The advice for a notebook, as Markdown; `here` is what the buffers of today reach."""
    first = here.limits[0]
    function = "" if first.name == LINK else f" (`{first.function}`)"
    return "\n\n".join(
        [
            f"**{describe_path(advice)}.** The BDP is {size_in_words(advice.bdp_bytes)}, and a "
            f"full link carries {in_three_digits(advice.line_bytes_s / MIB)} MiB/s of payload.",
            f"Today ({describe_sizes(here)}): {describe_reached(here, advice)}"
            f"{function}. {describe_reason(advice, here)}",
            f"One flow fills the link with {size_in_words(advice.receive_set_bytes)} at the "
            f"receiver and {size_in_words(advice.send_set_bytes)} at the sender.",
            f"M{describe_memory(advice, connections)[1:]}",
        ]
    )


def as_json(advice: Advice, connections: int, given: Reached | None) -> dict[str, Any]:
    """The same as plain data; sizes in bytes, as getsockopt returns them, or None."""
    plain = {
        **asdict(advice),
        "tcp_rmem": advice.rmem(),
        "tcp_wmem": advice.wmem(),
        **{name: getattr(advice, name) for name in DERIVED},
        "connections": connections,
        "receivers_memory_bytes": connections * advice.receive_set_bytes,
        "senders_memory_bytes": connections * advice.send_set_bytes,
        "default": _reached_json(advice, reached(advice)),
        "predicted": None if given is None else _reached_json(advice, given),
        "sysctl": sysctl_lines(advice),
        "loss_based_bytes_s": _by_loss(advice),
    }
    return plain if advice.holds_bdp is not None else plain | dict.fromkeys(SIZES)


def _reached_json(advice: Advice, flow: Reached) -> dict[str, Any]:
    plain = {**asdict(flow), "between_bytes_s": between_bytes_s(advice, flow)}
    return plain | dict.fromkeys(("goodput_bytes_s", "bound")) if flow.cannot_say else plain


def describe_path(advice: Advice) -> str:
    loss = f"loss {advice.loss_pct:g} %" if advice.loss_pct else "no loss"
    return (
        f"{advice.rate_mbit:g} Mbit/s, RTT {advice.rtt_ms:g} ms, MSS {advice.mss_bytes} bytes, "
        f"{loss}; Linux {advice.kernel} at both ends{_rules_of(advice.kernel)}"
    )


def _by_loss(advice: Advice) -> float:
    line, loss_pct = advice.line_bytes_s, advice.loss_pct
    return loss_based_bytes_s(line, loss_pct, advice.rtt_ms, advice.mss_bytes)


def describe_loss(advice: Advice) -> str:
    """What a loss-based congestion control reaches, and whether BBR reaches more."""
    reno = _by_loss(advice)
    share = reno / advice.line_bytes_s
    if share >= FULL:
        return "loss: too small to limit a flow, if losses are random (formula of Mathis)."
    text = (
        f"loss: with Reno, and about with CUBIC, a flow reaches {in_three_digits(reno / MIB)} "
        f"MiB/s, {100 * share:.2g} % of the link, if losses are random (formula of Mathis). No "
        "buffer changes that"
    )
    if advice.loss_pct > BBR_TOLERATES_PCT:
        return f"{text}, and it is more than BBR tolerates. Find the cause. No sizes are advised."
    return f"{text}. Find the cause, or use BBR, which does not take a loss for congestion."


def describe_rule(advice: Advice) -> str:
    """Which congestion control the sizes are for, and by which rule."""
    control, holds = advice.control, advice.holds_bdp
    if holds is None:
        return f"no sizes: no rule is known for {control} on this path."
    if not advice.loss_pct and control in FOLLOWS_MATHIS:
        return f"sizes for {control}: each end holds the payload of a round trip."
    if not advice.loss_pct:
        return f"sizes for bbr: each end holds {holds:g} BDP of payload, as its congestion window."
    why = (
        "in recovery up to twice its window is in flight (net/ipv4/tcp_input.c "
        "tcp_sndbuf_expand()), and the largest windows are four times the mean"
        if control in FOLLOWS_MATHIS
        else "data behind a hole waits for the report of the loss and for the retransmission; with "
        "so much BBR reached 99 % of what larger buffers allow, measured on 6.1 (docs/model.md)"
    )
    return f"sizes for {control}: each end holds {holds:.2g} BDP of payload, because {why}."


def _chosen(advice: Advice) -> bool:
    """Whether the congestion control was a choice."""
    return advice.control is not None and (advice.loss_pct > 0 or advice.control != CUBIC)


def to_select(advice: Advice) -> list[str]:
    """The line that selects the congestion control, where it is not the default."""
    name = "net.ipv4.tcp_congestion_control"
    if advice.control == CUBIC:
        return []
    return ["# on the sender", f"sysctl -w {name}={advice.control}", ""]


def _rules_of(kernel: str) -> str:
    """Which rules are taken for a kernel newer than those whose source was read."""
    newest = SERIES[-1]
    return f", by the rules of {newest}" if series(kernel) > series(newest) else ""


def size_rows(advice: Advice) -> list[dict[str, str]]:
    """One row per end: the default maximum, the advised one, and what a program may request."""
    smallest = "smallest by this rule" if _chosen(advice) else "smallest that fills the link"
    return [
        {
            "buffer": "receiver, tcp_rmem",
            "default": size_in_words(advice.default_rmem[-1]),
            smallest: _coalesced(advice),
            "advised": size_in_words(advice.receive_set_bytes),
            "or SO_RCVBUF / SO_SNDBUF": "none is enough"
            if advice.receive_request_bytes is None
            else size_in_words(advice.receive_request_bytes),
        },
        {
            "buffer": "sender, tcp_wmem",
            "default": size_in_words(DEFAULT_WMEM[-1]),
            smallest: size_in_words(advice.send_bytes),
            "advised": size_in_words(advice.send_set_bytes),
            "or SO_RCVBUF / SO_SNDBUF": size_in_words(advice.send_request_bytes),
        },
    ]


def _coalesced(advice: Advice) -> str:
    least, alone = size_in_words(advice.receive_bytes), size_in_words(advice.receive_alone_bytes)
    return least if least == alone else f"{least} with GRO, {alone} without"


def describe_sizes(flow: Reached) -> str:
    return (
        f"send buffer {size_in_words(flow.sndbuf_bytes)}, receive buffer "
        f"{size_in_words(flow.rcvbuf_bytes)}"
    )


def describe_reached(flow: Reached, advice: Advice) -> str:
    """`14.1 MiB/s, 12 % of the link, limited by the send buffer`."""
    if flow.cannot_say:
        return f"not predicted: {flow.cannot_say}"
    share = 100 * flow.goodput_bytes_s / advice.line_bytes_s
    likely = between_bytes_s(advice, flow)
    ends = [in_three_digits(bytes_s / MIB) for bytes_s in likely or ()]
    decides = "chance decides" if advice.loss_pct else "single packets decide"
    between = f" (between {' and '.join(ends)}: {decides})" if ends else ""
    return (
        f"{in_three_digits(flow.goodput_bytes_s / MIB)} MiB/s{between}, {share:.0f} % of the "
        f"link, limited by the {flow.bound}"
    )


def _limits(flow: Reached) -> list[str]:
    rows = [
        {
            "  limit": f"  {limit.name}",
            "alone, MiB/s": "" if limit.bytes_s is None else in_three_digits(limit.bytes_s / MIB),
            "set by": _set_by(limit),
        }
        for limit in flow.limits
    ]
    return terminal_table(rows, tuple(rows[0])).splitlines() if rows else []


def _set_by(limit: Limit) -> str:
    """The kernel function that sets a limit. Only a lab's link is shaped by one."""
    return "its rate" if limit.name == LINK else limit.function


def describe_reason(advice: Advice, flow: Reached) -> str:
    """Why a limit lies where it does."""
    bound = flow.bound
    if flow.cannot_say:
        return ""
    first = flow.limits[0]
    if bound == SEND_BUFFER and flow.goodput_bytes_s > OVERFILLED * (first.bytes_s or inf):
        return f"{REASONS[SEND_BUFFER]} {APPENDED}"
    if bound == RECEIVE_WINDOW and series(advice.kernel) < RATIO_SINCE:
        return (
            "With tcp_adv_win_scale = 1, half of the receive buffer is reserved for overhead. "
            "Only the other half becomes window."
        )
    return REASONS.get(bound, "")


OVERFILLED = 1.1
"""A goodput above this multiple of what fits into the send buffer needs an explanation."""
APPENDED = (
    "Here more data than its size is in flight: the next write is appended to a partial segment "
    "that Nagle's algorithm holds, up to the end of its packet, without a check of the buffer's "
    "size (net/ipv4/tcp.c tcp_sendmsg_locked()). With TCP_NODELAY the size is the limit."
)
REASONS = {
    LINK: "Larger buffers do not help.",
    WAKE_UP: "A writer that found the send buffer full is woken when at most two thirds of it are "
    "in use. Therefore about two thirds of a large send buffer are in flight.",
    SEND_BUFFER: "Data stays in the send buffer until it is acknowledged, one RTT later.",
    RECEIVE_WINDOW: "The share of the receive buffer that becomes window is the share of payload "
    "in the memory of the first full-sized packet.",
}


def describe_memory(advice: Advice, connections: int) -> str:
    """The memory that connections may take at most, and the memory of a machine that has it."""
    many = f"{connections:,} connections" if connections > 1 else "one connection"
    ends = {"receiver": advice.receive_set_bytes, "sender": advice.send_set_bytes}
    taken = " and ".join(
        f"{memory_size(connections * size)} at the {end}" for end, size in ends.items()
    )
    receiver, sender = (
        memory_size(connections * size / share)
        for size, share in (
            (advice.receive_set_bytes, WINDOWS_STOP_SHARE),
            (advice.send_set_bytes, SEND_BUFFERS_STOP_SHARE),
        )
    )
    return (
        f"memory: {many} may take up to {taken}. When all together exceed tcp_mem[0], 3/64 of "
        f"memory, send buffers stop growing (net/ipv4/tcp_input.c tcp_should_expand_sndbuf()); "
        f"above tcp_mem[1], 1/16, windows do too (tcp_grow_window()). To stay below, the receiver "
        f"needs {receiver} of memory, and the sender {sender}."
    )


def memory_size(size: float) -> str:
    """An amount of memory: 800 MiB, 71.3 GiB."""
    return f"{in_three_digits(size / GIB)} GiB" if size >= GIB else size_in_words(size)


def to_paste(advice: Advice) -> str:
    """The sysctl lines for both ends; a remark if the defaults are sufficient."""
    remarks = {"receiver": _without_gro(advice), "sender": []}
    lines = {
        end: f"# net.ipv4.{name}: {ENOUGH}" if suffices else f"sysctl -w net.ipv4.{name}='{value}'"
        for end, (name, value, suffices) in _maxima(advice).items()
    }
    return "\n\n".join(
        "\n".join([f"# on the {end}", *remarks[end], line]) for end, line in lines.items()
    )


def _maxima(advice: Advice) -> dict[str, tuple[str, str, bool]]:
    """By end: the sysctl, its advised value, and whether the default is enough."""
    return {
        "receiver": ("tcp_rmem", advice.rmem(), advice.receive_suffices),
        "sender": ("tcp_wmem", advice.wmem(), advice.send_suffices),
    }


def core_to_paste(advice: Advice) -> str:
    """The sysctl lines for programs that set their buffers with setsockopt."""
    return "\n".join(
        [
            "# only if a program sets its buffers: its request is capped, then doubled",
            _core_line("rmem_max", "SO_RCVBUF", advice.receive_request_bytes, advice),
            _core_line("wmem_max", "SO_SNDBUF", advice.send_request_bytes, advice),
        ]
    )


def _core_line(name: str, option: str, request_bytes: int | None, advice: Advice) -> str:
    if request_bytes is None:
        return f"# net.core.{name}: no {option} is enough; leave the size to the kernel"
    if request_bytes <= advice.core_max_bytes:
        return f"# net.core.{name}: {ENOUGH} for {option} {request_bytes}"
    return f"sysctl -w net.core.{name}={request_bytes}  # for {option}"


def sysctl_lines(advice: Advice) -> dict[str, list[str]]:
    """The lines by end, without remarks; none where the default is enough."""
    return {
        end: [] if suffices else [f"net.ipv4.{name} = {value}"]
        for end, (name, value, suffices) in _maxima(advice).items()
    }


def _without_gro(advice: Advice) -> list[str]:
    """A remark where the size depends on how packets arrive."""
    if advice.receive_suffices or advice.receive_bytes == advice.receive_alone_bytes:
        return []
    return [
        f"# if packets are not coalesced; {size_in_words(advice.receive_bytes)} is enough if they "
        "are coalesced in pairs (GRO)"
    ]


def sizes_by_kernel(rate_mbit: float, rtt_ms: float, *kernels: str) -> Table:
    """The buffers that one flow needs to fill a link: one row per kernel, which runs at both ends.

    `receive buffer` is for packets that are coalesced in pairs (GRO), as in virtual time, the next
    size for packets that are not coalesced. The values to set suffice for both.
    """
    every = {kernel: advise(rate_mbit, rtt_ms, kernel) for kernel in kernels}
    return Table(
        [
            {
                "Linux": kernel,
                "BDP": size_in_words(advice.bdp_bytes),
                "receive buffer": size_in_words(advice.receive_bytes),
                "of the BDP": _of_the_bdp(advice.receive_bytes, advice),
                "without coalescing": size_in_words(advice.receive_alone_bytes),
                "send buffer": size_in_words(advice.send_bytes),
                "of the BDP ": _of_the_bdp(advice.send_bytes, advice),
                "on the receiver": (
                    ENOUGH if advice.receive_suffices else f"tcp_rmem = {advice.rmem()}"
                ),
                "on the sender": ENOUGH if advice.send_suffices else f"tcp_wmem = {advice.wmem()}",
            }
            for kernel, advice in every.items()
        ]
    )


def _of_the_bdp(size: int, advice: Advice) -> str:
    return f"{size / advice.bdp_bytes:.2f}" if advice.bdp_bytes else ""


def sysctls_to_paste(rate_mbit: float, rtt_ms: float, kernel: str) -> Text:
    """The sysctl lines for both ends of a path; a remark if the defaults are sufficient."""
    return Text(to_paste(advise(rate_mbit, rtt_ms, kernel)))
