"""An advice on buffers as text, as lines to paste, as plain data, and as a table by kernel."""

from __future__ import annotations

from dataclasses import asdict
from textwrap import fill
from typing import Any

from labs.drive.kernel.versions import SERIES
from labs.guest.units import GIB, MIB
from labs.read.display.format import in_three_digits, size_in_words, terminal_table
from labs.read.display.rich_output import Table, Text
from labs.read.theory.advice import FULL, SIZES, Advice, End, Reached, advise, reached
from labs.read.theory.bdp import BBR_TOLERATES_PCT, FOLLOWS_MATHIS
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_flow import CUBIC
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER, WAKE_UP
from labs.read.theory.kernels import RATIO, series

ENOUGH = "the default is enough"
WIDTH = 100
SELECT = "# on the sender\nsysctl -w net.ipv4.tcp_congestion_control={}"
OF_PATH = ("bdp_bytes", "line_bytes_s", "loss_based_bytes_s", "default_rmem", "core_max_bytes")
"""What plain data has of a path besides its fields."""
OVERFILLED = 1.1
"""A goodput above this multiple of what fits into the send buffer needs an explanation."""
APPENDED = (
    " Here more than its size is in flight: the next write is appended to a partial segment that "
    "Nagle's algorithm holds, without a check of the size (net/ipv4/tcp.c tcp_sendmsg_locked()). "
    "With TCP_NODELAY the size is the limit."
)
HALVED = "With tcp_adv_win_scale = 1 only half of the receive buffer becomes window."
REASONS = {
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


def describe(reach: Reached, connections: int = 1, buffers: str = "default buffers") -> str:
    """The advice in full: the path, the sizes, what some buffers reach and why, memory, sysctls."""
    advice = reach.advice
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
            _describe_flow(buffers, reach),
            fill(_describe_memory(advice, connections), WIDTH),
            SELECT.format(advice.control) * (advice.control != CUBIC),
            to_paste(advice),
            core_to_paste(advice),
        ]
    return "\n\n".join(filter(None, parts))


def describe_prediction(reach: Reached) -> str:
    """What a flow reaches with buffers of given sizes, and why."""
    return f"{describe_path(reach.advice)}\n{_describe_flow(describe_sizes(reach), reach)}"


def _describe_flow(buffers: str, reach: Reached) -> str:
    """What a flow with these buffers reaches, its limits and the reason. A lab's link is limited by
    its rate, and not by the function that shapes it."""
    rows = [
        {
            "  limit": f"  {limit.name}",
            "alone, MiB/s": "" if limit.bytes_s is None else in_three_digits(limit.bytes_s / MIB),
            "set by": "its rate" if limit.name == LINK else limit.function,
        }
        for limit in reach.limits
    ]
    table = terminal_table(rows, tuple(rows[0])) if rows else ""
    reached_here = f"{buffers}: {describe_reached(reach)}"
    return "\n".join(filter(None, [reached_here, table, fill(_reason(reach), WIDTH)]))


def as_json(advice: Advice, connections: int, given: Reached | None) -> dict[str, Any]:
    """The same as plain data; sizes in bytes, as getsockopt returns them, or None where there is
    no rule for them."""
    sizes = {name: getattr(advice, name) for name in SIZES}
    for end in advice.ends:
        sizes[end.sysctl] = end.value
        sizes[f"{end.does}_suffices"] = end.suffices
        sizes[f"{end.does}_request_bytes"] = end.request_bytes
        sizes[f"{end.name}s_memory_bytes"] = connections * end.set_bytes
    sizes["sysctl"] = {
        end.name: [] if end.suffices else [f"net.ipv4.{end.sysctl} = {end.value}"]
        for end in advice.ends
    }
    return {
        **asdict(advice),
        **{name: getattr(advice, name) for name in OF_PATH},
        **(dict.fromkeys(sizes) if advice.holds_bdp is None else sizes),
        "connections": connections,
        "default": _reached_json(reached(advice)),
        "predicted": None if given is None else _reached_json(given),
    }


def _reached_json(reach: Reached) -> dict[str, Any]:
    plain = asdict(reach) | {"between_bytes_s": reach.between_bytes_s}
    del plain["advice"]
    return plain | dict.fromkeys(("goodput_bytes_s", "bound")) if reach.cannot_say else plain


def describe_path(advice: Advice) -> str:
    loss = f"loss {advice.loss_pct:g} %" if advice.loss_pct else "no loss"
    newest, kernel = [*SERIES][-1], advice.kernel  # no source of a newer kernel was read
    rules = f", by the rules of {newest}" if series(kernel) > series(newest) else ""
    return (
        f"{advice.rate_mbit:g} Mbit/s, RTT {advice.rtt_ms:g} ms, MSS {advice.mss_bytes} bytes, "
        f"{loss}; Linux {kernel} at both ends{rules}"
    )


def _mib_s(bytes_s: float) -> str:
    return f"{in_three_digits(bytes_s / MIB)} MiB/s"


def _describe_loss(advice: Advice) -> str:
    """What a loss-based congestion control reaches, and whether BBR reaches more."""
    share = advice.loss_based_bytes_s / advice.line_bytes_s
    if not advice.loss_pct:
        return ""
    if share >= FULL:
        return "loss: too small to limit a flow, if losses are random (formula of Mathis)."
    bbr = ", or use BBR, which does not take a loss for congestion"
    if advice.loss_pct > BBR_TOLERATES_PCT:
        bbr = ". It is more than BBR tolerates: no sizes are advised"
    return (
        f"loss: with Reno, and about with CUBIC, a flow reaches {_mib_s(advice.loss_based_bytes_s)}"
        f", {100 * share:.2g} % of the link, if losses are random (formula of Mathis). No buffer "
        f"changes that. Find the cause{bbr}."
    )


def _describe_rule(advice: Advice) -> str:
    """Which congestion control the sizes are for, if it was a choice, and by which rule."""
    control, holds = advice.control, advice.holds_bdp
    if not _is_chosen(advice):
        return ""
    if holds is None:
        return f"no sizes: no rule is known for {control} on this path."
    follows = control in FOLLOWS_MATHIS
    if follows and not advice.loss_pct:
        return f"sizes for {control}: each end holds the payload of a round trip."
    with_loss = LOSS_BASED if follows else BBR_WITH_LOSS
    why = with_loss if advice.loss_pct else ", as its congestion window"
    return f"sizes for {control}: each end holds {holds:.2g} BDP of payload{why}."


def _is_chosen(advice: Advice) -> bool:
    """Whether the congestion control was a choice."""
    return advice.control is not None and (advice.loss_pct > 0 or advice.control != CUBIC)


def size_rows(advice: Advice) -> list[dict[str, str]]:
    """One row per end: the default maximum, the advised one, and what a program may request."""
    rule = "by this rule" if _is_chosen(advice) else "that fills the link"
    return [
        {
            "buffer": f"{end.name}, {end.sysctl}",
            "default": size_in_words(end.default[-1]),
            f"smallest {rule}": _smallest(end),
            "advised": size_in_words(end.set_bytes),
            "or SO_RCVBUF / SO_SNDBUF": size_in_words(end.request_bytes)
            if end.request_bytes
            else "none is enough",
        }
        for end in advice.ends
    ]


def _smallest(end: End) -> str:
    alone, coalesced = map(size_in_words, (end.smallest_bytes, end.coalesced_bytes))
    return alone if alone == coalesced else f"{coalesced} with GRO, {alone} without"


def describe_sizes(reach: Reached) -> str:
    send, receive = map(size_in_words, (reach.sndbuf_bytes, reach.rcvbuf_bytes))
    return f"send buffer {send}, receive buffer {receive}"


def describe_reached(reach: Reached) -> str:
    """`14.1 MiB/s, 12 % of the link, limited by the send buffer`."""
    if reach.cannot_say:
        return f"not predicted: {reach.cannot_say}"
    goodput = _mib_s(reach.goodput_bytes_s)
    if ends := reach.between_bytes_s:
        low, high = (in_three_digits(end / MIB) for end in ends)
        decides = "chance decides" if reach.advice.loss_pct else "single packets decide"
        goodput += f" (between {low} and {high}: {decides})"
    share = 100 * reach.goodput_bytes_s / reach.advice.line_bytes_s
    return f"{goodput}, {share:.0f} % of the link, limited by the {reach.bound}"


def _reason(reach: Reached) -> str:
    """Why a limit lies where it does."""
    if reach.bound == RECEIVE_WINDOW and not RATIO.holds(reach.advice.kernel):
        return HALVED
    reason = REASONS.get(reach.bound, "")
    if reach.bound != SEND_BUFFER:
        return reason
    fits = reach.limits[0].bytes_s
    return reason + APPENDED * bool(fits and reach.goodput_bytes_s > OVERFILLED * fits)


def _describe_memory(advice: Advice, connections: int) -> str:
    """The memory that connections may take at most, and the memory of a machine that has it."""
    many = f"{connections:,} connections" if connections > 1 else "one connection"
    received, sent = (connections * end.set_bytes for end in advice.ends)
    stops = [connections * end.set_bytes / end.stop_share for end in advice.ends]
    return (
        f"memory: {many} may take up to {_memory(received)} at the receiver and {_memory(sent)} at "
        "the sender. Above tcp_mem[0], 3/64 of memory, send buffers stop growing "
        "(net/ipv4/tcp_input.c tcp_should_expand_sndbuf()); above tcp_mem[1], 1/16, windows do "
        f"(tcp_grow_window()). To stay below, the receiver needs {_memory(stops[0])} of memory, "
        f"and the sender {_memory(stops[1])}."
    )


def _memory(size: float) -> str:
    """An amount of memory: 800 MiB, 71.3 GiB."""
    return f"{in_three_digits(size / GIB)} GiB" if size >= GIB else size_in_words(size)


def to_paste(advice: Advice) -> str:
    """The sysctl lines for both ends, with a remark where the size depends on how packets
    arrive."""
    texts = []
    for end in advice.ends:
        lines = [f"# on the {end.name}"]
        if end.coalesced_bytes != end.smallest_bytes and not end.suffices:
            lines.append(
                f"# if packets are not coalesced; {size_in_words(end.coalesced_bytes)} is enough if"
                " they are coalesced in pairs (GRO)"
            )
        name = f"net.ipv4.{end.sysctl}"
        lines.append(f"# {name}: {ENOUGH}" if end.suffices else f"sysctl -w {name}='{end.value}'")
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


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
