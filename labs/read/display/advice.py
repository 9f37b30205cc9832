"""Advice on buffers in words: sizes, limits, memory, and sysctl lines to paste."""

from __future__ import annotations

from dataclasses import asdict
from textwrap import fill
from typing import Any

from labs.drive.kernel.versions import SERIES
from labs.drive.units import GIB, MIB
from labs.read.display.format import in_three_digits, size_in_words, terminal_table
from labs.read.display.rich_output import Table, Text
from labs.read.theory import advice as theory
from labs.read.theory.advice import Advice, End, Reached, advise, between_bytes_s, reached
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_flow import CUBIC
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER, WAKE_UP
from labs.read.theory.kernels import RATIO, series
from labs.read.theory.mathis import BBR_TOLERATES_PCT, FOLLOWS_MATHIS

ENOUGH = "the default is enough"
WIDTH = 100
SIZES = ("receive_bytes", "receive_alone_bytes", "receive_locked_bytes", "send_bytes")
OVERFILLED = 1.1
"""A goodput above this multiple of what fits into the send buffer needs an explanation."""
APPENDED = (
    " Here more than its size is in flight: the next write is appended to a partial segment that "
    "Nagle's algorithm holds, without a check of the size (net/ipv4/tcp.c tcp_sendmsg_locked()). "
    "With TCP_NODELAY the size is the limit."
)
HALVED = "With tcp_adv_win_scale = 1 only half of the receive buffer becomes window."
REASONS = {
    "": "",
    LINK: "Larger buffers do not help.",
    WAKE_UP: "A writer that waits for room is woken when at most two thirds of the send buffer are "
    "in use. Therefore about two thirds of a large one are in flight.",
    SEND_BUFFER: "Data stays in the send buffer until it is acknowledged, one RTT later.",
    RECEIVE_WINDOW: "The share of the receive buffer that becomes window is the share of payload "
    "in the memory of the first full-sized packet.",
}
LOSS_BASED = (
    ", because in recovery up to twice its window is in flight (net/ipv4/tcp_input.c "
    "tcp_sndbuf_expand()), and the largest windows are four times the mean"
)
BBR_WITH_LOSS = (
    ", because data behind a hole waits for the report of the loss and for the retransmission; "
    "with so much BBR reached 99 % of what larger buffers allow, measured on 6.1 (docs/model.md)"
)


def describe(advice: Advice, connections: int = 1) -> str:
    """The advice for a terminal: the path, the sizes, what limits the defaults, memory, sysctls."""
    parts = [
        f"{describe_path(advice)}\nBDP {size_in_words(advice.bdp_bytes)}; a full link carries "
        f"{_mib_s(advice.line_bytes_s)} of payload",
        fill(_describe_loss(advice), WIDTH),
        fill(_describe_rule(advice), WIDTH),
    ]
    if advice.holds_bdp is not None:
        rows = size_rows(advice)
        parts += [
            terminal_table(rows, tuple(rows[0])),
            _describe_flow("default buffers", advice, reached(advice)),
            fill(f"memory: {_describe_memory(advice, connections)}", WIDTH),
            *_to_select(advice),
            to_paste(advice),
            core_to_paste(advice),
        ]
    return "\n\n".join(filter(None, parts))


def describe_prediction(advice: Advice, flow: Reached) -> str:
    """What a flow reaches with buffers of given sizes, and why."""
    return f"{describe_path(advice)}\n{_describe_flow(describe_sizes(flow), advice, flow)}"


def _describe_flow(buffers: str, advice: Advice, flow: Reached) -> str:
    """What a flow with these buffers reaches, its limits and the reason. A lab's link is limited by
    its rate, and not by the function that shapes it."""
    rows = [
        {
            "  limit": f"  {limit.name}",
            "alone, MiB/s": "" if limit.bytes_s is None else in_three_digits(limit.bytes_s / MIB),
            "set by": "its rate" if limit.name == LINK else limit.function,
        }
        for limit in flow.limits
    ]
    table = terminal_table(rows, tuple(rows[0])) if rows else ""
    reached_here = f"{buffers}: {describe_reached(flow, advice)}"
    return "\n".join(filter(None, [reached_here, table, fill(_reason(advice, flow), WIDTH)]))


def describe_for_notebook(advice: Advice, here: Reached, connections: int = 1) -> str:
    """The advice for a notebook, as Markdown; `here` is what the buffers of today reach."""
    first = here.limits[0]
    function = "" if first.name == LINK else f" (`{first.function}`)"
    return (
        f"**{describe_path(advice)}.** The BDP is {size_in_words(advice.bdp_bytes)}, and a full "
        f"link carries {_mib_s(advice.line_bytes_s)} of payload.\n\n"
        f"Today ({describe_sizes(here)}): {describe_reached(here, advice)}{function}. "
        f"{_reason(advice, here)}\n\n"
        f"One flow fills the link with {size_in_words(advice.receiver.set_bytes)} at the receiver "
        f"and {size_in_words(advice.sender.set_bytes)} at the sender.\n\n"
        f"Memory: {_describe_memory(advice, connections)}"
    )


def as_json(advice: Advice, connections: int, given: Reached | None) -> dict[str, Any]:
    """The same as plain data; sizes in bytes, as getsockopt returns them, or None where there is
    no rule for them."""
    plain = asdict(advice)
    sizes = {name: plain[name] for name in SIZES}
    for end in advice.ends:
        sizes[end.sysctl] = end.value
        sizes[f"{end.does}_suffices"] = end.suffices
        sizes[f"{end.does}_request_bytes"] = end.request_bytes
        sizes[f"{end.name}s_memory_bytes"] = connections * end.set_bytes
    sizes["sysctl"] = {end.name: _lines(end) for end in advice.ends}
    return {
        **plain,
        **(dict.fromkeys(sizes) if advice.holds_bdp is None else sizes),
        "core_max_bytes": advice.core_max_bytes,
        "connections": connections,
        "default": _reached_json(advice, reached(advice)),
        "predicted": None if given is None else _reached_json(advice, given),
        "loss_based_bytes_s": _loss_based_bytes_s(advice),
    }


def _lines(end: End) -> list[str]:
    return [] if end.suffices else [f"net.ipv4.{end.sysctl} = {end.value}"]


def _reached_json(advice: Advice, flow: Reached) -> dict[str, Any]:
    plain = {**asdict(flow), "between_bytes_s": between_bytes_s(advice, flow)}
    return plain | dict.fromkeys(("goodput_bytes_s", "bound")) if flow.cannot_say else plain


def describe_path(advice: Advice) -> str:
    loss = f"loss {advice.loss_pct:g} %" if advice.loss_pct else "no loss"
    newest, kernel = SERIES[-1], advice.kernel  # no source of a newer kernel was read
    rules = f", by the rules of {newest}" if series(kernel) > series(newest) else ""
    return (
        f"{advice.rate_mbit:g} Mbit/s, RTT {advice.rtt_ms:g} ms, MSS {advice.mss_bytes} bytes, "
        f"{loss}; Linux {kernel} at both ends{rules}"
    )


def _mib_s(bytes_s: float) -> str:
    return f"{in_three_digits(bytes_s / MIB)} MiB/s"


def _loss_based_bytes_s(advice: Advice) -> float:
    path = advice.line_bytes_s, advice.loss_pct, advice.rtt_ms, advice.mss_bytes
    return theory.loss_based_bytes_s(*path)


def _describe_loss(advice: Advice) -> str:
    """What a loss-based congestion control reaches, and whether BBR reaches more."""
    reno = _loss_based_bytes_s(advice)
    share = reno / advice.line_bytes_s
    if not advice.loss_pct:
        return ""
    if share >= theory.FULL:
        return "loss: too small to limit a flow, if losses are random (formula of Mathis)."
    bbr = ", or use BBR, which does not take a loss for congestion"
    if advice.loss_pct > BBR_TOLERATES_PCT:
        bbr = ". It is more than BBR tolerates: no sizes are advised"
    return (
        f"loss: with Reno, and about with CUBIC, a flow reaches {_mib_s(reno)}, "
        f"{100 * share:.2g} % of the link, if losses are random (formula of Mathis). No buffer "
        f"changes that. Find the cause{bbr}."
    )


def _describe_rule(advice: Advice) -> str:
    """Which congestion control the sizes are for, if it was a choice, and by which rule."""
    control, holds = advice.control, advice.holds_bdp
    if not _chosen(advice):
        return ""
    if holds is None:
        return f"no sizes: no rule is known for {control} on this path."
    follows = control in FOLLOWS_MATHIS
    if advice.loss_pct:
        why = LOSS_BASED if follows else BBR_WITH_LOSS
    elif follows:
        return f"sizes for {control}: each end holds the payload of a round trip."
    else:
        why = ", as its congestion window"
    return f"sizes for {control}: each end holds {holds:.2g} BDP of payload{why}."


def _chosen(advice: Advice) -> bool:
    """Whether the congestion control was a choice."""
    return advice.control is not None and (advice.loss_pct > 0 or advice.control != CUBIC)


def _to_select(advice: Advice) -> list[str]:
    """The line that selects the congestion control, where it is not the default."""
    line = f"# on the sender\nsysctl -w net.ipv4.tcp_congestion_control={advice.control}"
    return [] if advice.control == CUBIC else [line]


def size_rows(advice: Advice) -> list[dict[str, str]]:
    """One row per end: the default maximum, the advised one, and what a program may request."""
    rule = "by this rule" if _chosen(advice) else "that fills the link"
    rows = []
    for end, coalesced_bytes in (
        (advice.receiver, advice.receive_bytes),
        (advice.sender, advice.send_bytes),
    ):
        alone, coalesced = map(size_in_words, (end.smallest_bytes, coalesced_bytes))
        request = end.request_bytes
        row = {
            "buffer": f"{end.name}, {end.sysctl}",
            "default": size_in_words(end.default[-1]),
            f"smallest {rule}": alone
            if alone == coalesced
            else f"{coalesced} with GRO, {alone} without",
            "advised": size_in_words(end.set_bytes),
            "or SO_RCVBUF / SO_SNDBUF": size_in_words(request) if request else "none is enough",
        }
        rows.append(row)
    return rows


def describe_sizes(flow: Reached) -> str:
    send, receive = map(size_in_words, (flow.sndbuf_bytes, flow.rcvbuf_bytes))
    return f"send buffer {send}, receive buffer {receive}"


def describe_reached(flow: Reached, advice: Advice) -> str:
    """`14.1 MiB/s, 12 % of the link, limited by the send buffer`."""
    if flow.cannot_say:
        return f"not predicted: {flow.cannot_say}"
    between = ""
    if ends := between_bytes_s(advice, flow):
        low, high = (in_three_digits(end / MIB) for end in ends)
        decides = "chance decides" if advice.loss_pct else "single packets decide"
        between = f" (between {low} and {high}: {decides})"
    share = 100 * flow.goodput_bytes_s / advice.line_bytes_s
    goodput = f"{_mib_s(flow.goodput_bytes_s)}{between}"
    return f"{goodput}, {share:.0f} % of the link, limited by the {flow.bound}"


def _reason(advice: Advice, flow: Reached) -> str:
    """Why a limit lies where it does."""
    if flow.bound == RECEIVE_WINDOW and not RATIO.holds(advice.kernel):
        return HALVED
    reason = REASONS.get(flow.bound, "")
    if flow.bound != SEND_BUFFER:
        return reason
    fits = flow.limits[0].bytes_s
    return reason + APPENDED * bool(fits and flow.goodput_bytes_s > OVERFILLED * fits)


def _describe_memory(advice: Advice, connections: int) -> str:
    """The memory that connections may take at most, and the memory of a machine that has it."""
    many = f"{connections:,} connections" if connections > 1 else "one connection"
    receiver, sender = advice.receiver, advice.sender
    received, sent = (connections * end.set_bytes for end in (receiver, sender))
    return (
        f"{many} may take up to {_memory(received)} at the receiver and {_memory(sent)} at the "
        "sender. Above tcp_mem[0], 3/64 of memory, send buffers stop growing "
        "(net/ipv4/tcp_input.c tcp_should_expand_sndbuf()); above tcp_mem[1], 1/16, windows do "
        f"(tcp_grow_window()). To stay below, the receiver needs "
        f"{_memory(received / receiver.stop_share)} of memory, and the sender "
        f"{_memory(sent / sender.stop_share)}."
    )


def _memory(size: float) -> str:
    """An amount of memory: 800 MiB, 71.3 GiB."""
    return f"{in_three_digits(size / GIB)} GiB" if size >= GIB else size_in_words(size)


def to_paste(advice: Advice) -> str:
    """The sysctl lines for both ends, with a remark where the size depends on how packets
    arrive."""
    receiver, sender = advice.receiver, advice.sender
    gro = ""
    if not receiver.suffices and advice.receive_bytes != receiver.smallest_bytes:
        gro = (
            f"# if packets are not coalesced; {size_in_words(advice.receive_bytes)} is enough if "
            "they are coalesced in pairs (GRO)\n"
        )
    return f"# on the receiver\n{gro}{_to_paste(receiver)}\n\n# on the sender\n{_to_paste(sender)}"


def _to_paste(end: End) -> str:
    if end.suffices:
        return f"# net.ipv4.{end.sysctl}: {ENOUGH}"
    return f"sysctl -w net.ipv4.{end.sysctl}='{end.value}'"


def core_to_paste(advice: Advice) -> str:
    """The sysctl lines for programs that set their buffers with setsockopt."""
    lines = ["# only if a program sets its buffers: its request is capped, then doubled"]
    for end in advice.ends:
        name = f"net.core.{end.sysctl.removeprefix('tcp_')}_max"
        if end.request_bytes is None:
            line = f"# {name}: no {end.option} is enough; leave the size to the kernel"
        elif end.request_bytes <= advice.core_max_bytes:
            line = f"# {name}: {ENOUGH} for {end.option} {end.request_bytes}"
        else:
            line = f"sysctl -w {name}={end.request_bytes}  # for {end.option}"
        lines.append(line)
    return "\n".join(lines)


def sizes_by_kernel(rate_mbit: float, rtt_ms: float, *kernels: str) -> Table:
    """The buffers that one flow needs to fill a link: one row per kernel, which runs at both ends.

    `receive buffer` is for packets that are coalesced in pairs (GRO), as in virtual time, the next
    size for packets that are not coalesced. The values to set suffice for both.
    """
    rows = []
    for kernel in kernels:
        advice = advise(rate_mbit, rtt_ms, kernel)
        bdp = advice.bdp_bytes
        row = {
            "Linux": kernel,
            "BDP": size_in_words(bdp),
            "receive buffer": size_in_words(advice.receive_bytes),
            "of the BDP": f"{advice.receive_bytes / bdp:.2f}" if bdp else "",
            "without coalescing": size_in_words(advice.receive_alone_bytes),
            "send buffer": size_in_words(advice.send_bytes),
            "of the BDP ": f"{advice.send_bytes / bdp:.2f}" if bdp else "",
        }
        for end in advice.ends:
            row[f"on the {end.name}"] = ENOUGH if end.suffices else f"{end.sysctl} = {end.value}"
        rows.append(row)
    return Table(rows)


def sysctls_to_paste(rate_mbit: float, rtt_ms: float, kernel: str) -> Text:
    """The sysctl lines for both ends of a path; a remark if the defaults are sufficient."""
    return Text(to_paste(advise(rate_mbit, rtt_ms, kernel)))
