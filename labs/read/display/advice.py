"""Advice on buffers in words: sizes, limits, memory, and sysctl lines to paste."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from textwrap import fill
from typing import Any, NamedTuple

from labs.drive.kernel.versions import SERIES
from labs.drive.units import GIB, MIB
from labs.read.display.format import in_three_digits, size_in_words, terminal_table
from labs.read.display.rich_output import Table, Text
from labs.read.theory import advice as theory
from labs.read.theory.advice import Advice, Reached, advise, between_bytes_s, reached
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_flow import CUBIC
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER, WAKE_UP
from labs.read.theory.defaults import DEFAULT_WMEM
from labs.read.theory.mathis import BBR_TOLERATES_PCT, FOLLOWS_MATHIS
from labs.read.theory.windows import RATIO_SINCE, series

ENOUGH = "the default is enough"
WIDTH = 100
REQUESTS = (*("receive_suffices", "send_suffices", "receive_request_bytes", "send_request_bytes"),)
SIZES = (
    *("receive_bytes", "receive_alone_bytes", "receive_locked_bytes", "send_bytes"),
    *("tcp_rmem", "tcp_wmem", "receivers_memory_bytes", "senders_memory_bytes", "sysctl"),
    *REQUESTS,
)
"""What has no value in JSON if there is no rule for the sizes."""
OVERFILLED = 1.1
"""A goodput above this multiple of what fits into the send buffer needs an explanation."""
APPENDED = (
    "Here more than its size is in flight: the next write is appended to a partial segment that "
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
    "in recovery up to twice its window is in flight (net/ipv4/tcp_input.c tcp_sndbuf_expand()), "
    "and the largest windows are four times the mean"
)
BBR_WITH_LOSS = (
    "data behind a hole waits for the report of the loss and for the retransmission; with so much "
    "BBR reached 99 % of what larger buffers allow, measured on 6.1 (docs/model.md)"
)


class End(NamedTuple):
    """One end: its sysctl, the size that is advised, and what a program may request instead. Its
    buffers grow until all connections together use `stop_share` of memory."""

    name: str
    sysctl: str
    option: str
    default_bytes: int
    smallest: str
    set_bytes: int
    value: str
    suffices: bool
    request_bytes: int | None
    stop_share: float

    def lines(self) -> list[str]:
        return [] if self.suffices else [f"net.ipv4.{self.to_set()}"]

    def to_set(self) -> str:
        return ENOUGH if self.suffices else f"{self.sysctl} = {self.value}"

    def to_paste(self) -> str:
        if self.suffices:
            return f"# net.ipv4.{self.sysctl}: {ENOUGH}"
        return f"sysctl -w net.ipv4.{self.sysctl}='{self.value}'"

    def core_to_paste(self, core_max_bytes: int) -> str:
        name = f"net.core.{self.sysctl.removeprefix('tcp_')}_max"
        if self.request_bytes is None:
            return f"# {name}: no {self.option} is enough; leave the size to the kernel"
        if self.request_bytes <= core_max_bytes:
            return f"# {name}: {ENOUGH} for {self.option} {self.request_bytes}"
        return f"sysctl -w {name}={self.request_bytes}  # for {self.option}"


def ends(advice: Advice) -> tuple[End, End]:
    """The receiver and the sender."""
    pairs, alone = map(size_in_words, (advice.receive_bytes, advice.receive_alone_bytes))
    receiver = End(
        *("receiver", "tcp_rmem", "SO_RCVBUF", advice.default_rmem[-1]),
        pairs if pairs == alone else f"{pairs} with GRO, {alone} without",
        *(advice.receive_set_bytes, advice.rmem(), advice.receive_suffices),
        *(advice.receive_request_bytes, theory.WINDOWS_STOP_SHARE),
    )
    sender = End(
        *("sender", "tcp_wmem", "SO_SNDBUF", DEFAULT_WMEM[-1], size_in_words(advice.send_bytes)),
        *(advice.send_set_bytes, advice.wmem(), advice.send_suffices),
        *(advice.send_request_bytes, theory.SEND_BUFFERS_STOP_SHARE),
    )
    return receiver, sender


def describe(advice: Advice, connections: int = 1) -> str:
    """The advice for a terminal: the path, the sizes, what limits the defaults, memory, sysctls."""
    lines = [
        describe_path(advice),
        f"BDP {size_in_words(advice.bdp_bytes)}; a full link carries {_mib_s(advice.line_bytes_s)} "
        "of payload",
        "",
        *([fill(describe_loss(advice), WIDTH), ""] if advice.loss_pct else []),
        *([fill(describe_rule(advice), WIDTH), ""] if _chosen(advice) else []),
    ]
    if advice.holds_bdp is not None:
        rows = size_rows(advice)
        lines += [terminal_table(rows, tuple(rows[0])), ""]
        lines += [*_flow_lines("default buffers", advice, reached(advice)), ""]
        lines += [fill(describe_memory(advice, connections), WIDTH), ""]
        lines += [*to_select(advice), to_paste(advice), "", core_to_paste(advice)]
    return "\n".join(lines).rstrip()


def describe_prediction(advice: Advice, flow: Reached) -> str:
    """What a flow reaches with buffers of given sizes, and why."""
    return "\n".join([describe_path(advice), *_flow_lines(describe_sizes(flow), advice, flow)])


def _flow_lines(buffers: str, advice: Advice, flow: Reached) -> list[str]:
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
    reason = fill(describe_reason(advice, flow), WIDTH)
    return [f"{buffers}: {describe_reached(flow, advice)}", *filter(None, [table, reason])]


def describe_for_notebook(advice: Advice, here: Reached, connections: int = 1) -> str:
    """The advice for a notebook, as Markdown; `here` is what the buffers of today reach."""
    first = here.limits[0]
    function = "" if first.name == LINK else f" (`{first.function}`)"
    receiver, sender = (size_in_words(end.set_bytes) for end in ends(advice))
    return (
        f"**{describe_path(advice)}.** The BDP is {size_in_words(advice.bdp_bytes)}, and a full "
        f"link carries {_mib_s(advice.line_bytes_s)} of payload.\n\n"
        f"Today ({describe_sizes(here)}): {describe_reached(here, advice)}{function}. "
        f"{describe_reason(advice, here)}\n\n"
        f"One flow fills the link with {receiver} at the receiver and {sender} at the sender.\n\n"
        f"M{describe_memory(advice, connections)[1:]}"
    )


def as_json(advice: Advice, connections: int, given: Reached | None) -> dict[str, Any]:
    """The same as plain data; sizes in bytes, as getsockopt returns them, or None."""
    plain = {
        **asdict(advice),
        "tcp_rmem": advice.rmem(),
        "tcp_wmem": advice.wmem(),
        **{name: getattr(advice, name) for name in (*REQUESTS, "core_max_bytes")},
        "connections": connections,
        **{f"{end.name}s_memory_bytes": connections * end.set_bytes for end in ends(advice)},
        "default": _reached_json(advice, reached(advice)),
        "predicted": None if given is None else _reached_json(advice, given),
        "sysctl": {end.name: end.lines() for end in ends(advice)},
        "loss_based_bytes_s": _loss_based_bytes_s(advice),
    }
    return plain if advice.holds_bdp is not None else plain | dict.fromkeys(SIZES)


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


def describe_loss(advice: Advice) -> str:
    """What a loss-based congestion control reaches, and whether BBR reaches more."""
    reno = _loss_based_bytes_s(advice)
    share = reno / advice.line_bytes_s
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


def describe_rule(advice: Advice) -> str:
    """Which congestion control the sizes are for, and by which rule."""
    control, holds = advice.control, advice.holds_bdp
    if holds is None:
        return f"no sizes: no rule is known for {control} on this path."
    follows = control in FOLLOWS_MATHIS
    if not advice.loss_pct and follows:
        return f"sizes for {control}: each end holds the payload of a round trip."
    held = f"sizes for {control}: each end holds {holds:.2g} BDP of payload"
    if not advice.loss_pct:
        return f"{held}, as its congestion window."
    return f"{held}, because {LOSS_BASED if follows else BBR_WITH_LOSS}."


def _chosen(advice: Advice) -> bool:
    """Whether the congestion control was a choice."""
    return advice.control is not None and (advice.loss_pct > 0 or advice.control != CUBIC)


def to_select(advice: Advice) -> list[str]:
    """The line that selects the congestion control, where it is not the default."""
    line = f"sysctl -w net.ipv4.tcp_congestion_control={advice.control}"
    return [] if advice.control == CUBIC else ["# on the sender", line, ""]


def size_rows(advice: Advice) -> list[dict[str, str]]:
    """One row per end: the default maximum, the advised one, and what a program may request."""
    smallest = "smallest by this rule" if _chosen(advice) else "smallest that fills the link"
    return [
        {
            "buffer": f"{end.name}, {end.sysctl}",
            "default": size_in_words(end.default_bytes),
            smallest: end.smallest,
            "advised": size_in_words(end.set_bytes),
            "or SO_RCVBUF / SO_SNDBUF": "none is enough"
            if end.request_bytes is None
            else size_in_words(end.request_bytes),
        }
        for end in ends(advice)
    ]


def describe_sizes(flow: Reached) -> str:
    send, receive = map(size_in_words, (flow.sndbuf_bytes, flow.rcvbuf_bytes))
    return f"send buffer {send}, receive buffer {receive}"


def describe_reached(flow: Reached, advice: Advice) -> str:
    """`14.1 MiB/s, 12 % of the link, limited by the send buffer`."""
    if flow.cannot_say:
        return f"not predicted: {flow.cannot_say}"
    ends_mib_s = [in_three_digits(end / MIB) for end in between_bytes_s(advice, flow) or ()]
    decides = "chance decides" if advice.loss_pct else "single packets decide"
    between = f" (between {' and '.join(ends_mib_s)}: {decides})" if ends_mib_s else ""
    share = 100 * flow.goodput_bytes_s / advice.line_bytes_s
    goodput = f"{_mib_s(flow.goodput_bytes_s)}{between}"
    return f"{goodput}, {share:.0f} % of the link, limited by the {flow.bound}"


def describe_reason(advice: Advice, flow: Reached) -> str:
    """Why a limit lies where it does."""
    if flow.cannot_say:
        return ""
    fits = flow.limits[0].bytes_s or inf
    if flow.bound == SEND_BUFFER and flow.goodput_bytes_s > OVERFILLED * fits:
        return f"{REASONS[SEND_BUFFER]} {APPENDED}"
    if flow.bound == RECEIVE_WINDOW and series(advice.kernel) < RATIO_SINCE:
        return HALVED
    return REASONS.get(flow.bound, "")


def describe_memory(advice: Advice, connections: int) -> str:
    """The memory that connections may take at most, and the memory of a machine that has it."""
    many = f"{connections:,} connections" if connections > 1 else "one connection"
    taken = {end.name: connections * end.set_bytes for end in ends(advice)}
    most = " and ".join(f"{memory_size(size)} at the {name}" for name, size in taken.items())
    receiver, sender = (memory_size(taken[end.name] / end.stop_share) for end in ends(advice))
    return (
        f"memory: {many} may take up to {most}. Above tcp_mem[0], 3/64 of memory, send buffers "
        f"stop growing (net/ipv4/tcp_input.c tcp_should_expand_sndbuf()); above tcp_mem[1], 1/16, "
        f"windows do (tcp_grow_window()). To stay below, the receiver needs {receiver} of memory, "
        f"and the sender {sender}."
    )


def memory_size(size: float) -> str:
    """An amount of memory: 800 MiB, 71.3 GiB."""
    return f"{in_three_digits(size / GIB)} GiB" if size >= GIB else size_in_words(size)


def to_paste(advice: Advice) -> str:
    """The sysctl lines for both ends, with a remark where the size depends on how packets
    arrive."""
    receiver, sender = (end.to_paste() for end in ends(advice))
    if not advice.receive_suffices and advice.receive_bytes != advice.receive_alone_bytes:
        receiver = (
            f"# if packets are not coalesced; {size_in_words(advice.receive_bytes)} is enough if "
            f"they are coalesced in pairs (GRO)\n{receiver}"
        )
    return f"# on the receiver\n{receiver}\n\n# on the sender\n{sender}"


def core_to_paste(advice: Advice) -> str:
    """The sysctl lines for programs that set their buffers with setsockopt."""
    head = "# only if a program sets its buffers: its request is capped, then doubled"
    return "\n".join([head, *(end.core_to_paste(advice.core_max_bytes) for end in ends(advice))])


def sizes_by_kernel(rate_mbit: float, rtt_ms: float, *kernels: str) -> Table:
    """The buffers that one flow needs to fill a link: one row per kernel, which runs at both ends.

    `receive buffer` is for packets that are coalesced in pairs (GRO), as in virtual time, the next
    size for packets that are not coalesced. The values to set suffice for both.
    """
    rows = []
    for kernel in kernels:
        advice = advise(rate_mbit, rtt_ms, kernel)
        receive, send = advice.receive_bytes, advice.send_bytes
        row = {
            "Linux": kernel,
            "BDP": size_in_words(advice.bdp_bytes),
            "receive buffer": size_in_words(receive),
            "of the BDP": _of_the_bdp(receive, advice),
            "without coalescing": size_in_words(advice.receive_alone_bytes),
            "send buffer": size_in_words(send),
            "of the BDP ": _of_the_bdp(send, advice),
        }
        rows.append(row | {f"on the {end.name}": end.to_set() for end in ends(advice)})
    return Table(rows)


def _of_the_bdp(size: int, advice: Advice) -> str:
    return f"{size / advice.bdp_bytes:.2f}" if advice.bdp_bytes else ""


def sysctls_to_paste(rate_mbit: float, rtt_ms: float, kernel: str) -> Text:
    """The sysctl lines for both ends of a path; a remark if the defaults are sufficient."""
    return Text(to_paste(advise(rate_mbit, rtt_ms, kernel)))
