"""Scenarios whose causes are known because the scenario sets them, drawn from a seed.

A scenario is what `guest.py` plays, with `causes`: the reasons that `labs explain` must find, each
as {"reason", "waited_for", "ms"}. `ms` names where the time is known from: {"sleeps": HOST} are the
pauses of a program, {"connect": true} what the client's connect() took, {"lost": [direction, n]}
the time from the loss of data segment n to the transmission that got through, {"nagle": bytes} the
delays of the small writes; null is a cause of which only the presence is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from labs.read.flows import reasons as of

Scenario = dict[str, Any]
KERNELS: Final = ("5.10", "6.1", "6.12", "7.2")
PLACES: Final = ("client", "between", "server")
MSS: Final = 1448
QUICK: Final = 40_000
WIDE: Final = {"client": {"tcp_rmem": "4096 4000000 6291456"}}
"""A receive buffer that never limits: Linux opens its window over some round trips."""
TO_SERVER, TO_CLIENT = 0, 1


def cause(reason: of.Reason, waited_for: str | None = None, ms: Any = None) -> dict[str, Any]:
    return {"reason": reason.name, "waited_for": waited_for, "ms": ms}


def served(*steps: list[Any]) -> list[list[Any]]:
    return [["listen"], ["accept"], *steps]


def rtt(chance: Random, least: float = 1, most: float = 200) -> float:
    """A round trip in ms, log-uniform."""
    return float(round(least * (most / least) ** chance.random(), 3))


def shape(chance: Random) -> dict[str, Any]:
    return {"rtt_ms": rtt(chance), "rate_mbit": chance.choice([0, 0, 10, 50, 200])}


def exchange(answer: int, think_ms: float = 0) -> tuple[list[list[Any]], list[list[Any]]]:
    """A request and its response, for both ends."""
    think = [["sleep", think_ms]] if think_ms else []
    return [["send", 200], ["recv", answer]], [["recv", 200], *think, ["send", answer]]


def refused(chance: Random) -> Scenario:
    return {
        "rtt_ms": rtt(chance),
        "client": [["connect"]] * chance.randint(1, 3),
        "server": [["nothing"]],
        "causes": [cause(of.REFUSED)],
    }


def unanswered(chance: Random) -> Scenario:
    return {
        "rtt_ms": rtt(chance),
        "client": [["connect"]],
        "server": [["nothing"]],
        "rules": [{"direction": TO_SERVER, "kind": "syn"}],
        "limit_s": chance.choice([4, 8, 20]),
        "places": ["client"],
        "causes": [cause(of.UNANSWERED)],
    }


def filtered(chance: Random) -> Scenario:
    return {
        "rtt_ms": rtt(chance),
        "client": [["connect"]],
        "server": [["nothing"]],
        "rules": [{"direction": TO_SERVER, "kind": "syn", "action": "filter"}],
        "places": ["client"],
        "causes": [cause(of.FILTERED)],
    }


def syn_repeated(chance: Random) -> Scenario:
    times = chance.randint(1, 2)
    kind, side = chance.choice([("syn", TO_SERVER), ("synack", TO_CLIENT)])
    asks, answers = exchange(chance.randint(500, QUICK))
    lost = {"connect": True}
    return {
        **shape(chance),
        "client": [["connect"], *asks, ["close"]],
        "server": served(*answers, ["until_closed"], ["close"]),
        "rules": [{"direction": side, "kind": kind, "times": times}],
        "places": ["client"] if kind == "syn" else ["client", "server"],
        "causes": [cause(of.SYN_REPEATED, None, lost)],
    }


def reset(chance: Random) -> Scenario:
    base = shape(chance)
    think = 3 * base["rtt_ms"] + chance.randint(100, 1500)
    if chance.random() < 0.5:
        client = [["connect"], ["send", 200], ["recv", 20_000]]
        server = served(["recv", 200], ["send", 10_000], ["sleep", think], ["reset"])
        by = "server"
    else:
        client = [["connect"], ["send", 200], ["recv", 10_000], ["sleep", think], ["reset"]]
        server = served(["recv", 200], ["send", 10_000], ["until_closed"])
        by = "client"
    return {
        **base,
        "client": client,
        "server": server,
        "causes": [cause(of.RESET, by)],
        "may": [of.UNTOLD, of.APPLICATION, of.CLOSED_LATE],
    }


def timeout(chance: Random) -> Scenario:
    """A whole flight is lost, and perhaps its first retransmissions: one timer after another."""
    base = {"rtt_ms": rtt(chance, 1, 150), "rate_mbit": 0}
    times = chance.randint(2, 4)
    if chance.random() < 0.5:
        asks, answers = exchange(600)
        more_asks, more_answers = exchange(700)
        return {
            **base,
            "client": [["connect"], *asks, *more_asks, ["close"]],
            "server": served(*answers, *more_answers, ["until_closed"], ["close"]),
            "rules": [{"direction": TO_CLIENT, "kind": "data", "segments": [1], "times": times}],
            "causes": [cause(of.TIMEOUT, "server", {"lost": [TO_CLIENT, 1]})],
            "may": [of.SPURIOUS],  # the ACK of the request is lost too
            "places": ["client", "server", "between"],
        }
    since = 4.5 * base["rtt_ms"] + 1
    asks, answers = exchange(200_000)
    return {
        **base,
        "client": [["connect"], *asks, ["close"]],
        "server": served(*answers, ["until_closed"], ["close"]),
        "rules": [
            {
                "direction": side,
                "kind": "any",
                "from_ms": since,
                "to_ms": since + chance.randint(600, 3000),
            }
            for side in (0, 1)
        ],
        "causes": [cause(of.TIMEOUT, "server")],
        # A client that has all its data closes, and its FIN is lost, too.
        "may": [of.CONGESTION_WINDOW, of.FULL_WINDOW, f"{of.TIMEOUT} of the client"],
        "places": ["server"],
    }


def tail_loss(chance: Random) -> Scenario:
    count = chance.randint(3, 9)
    asks, answers = exchange(count * MSS)
    return {
        "rtt_ms": rtt(chance, 2, 150),
        "client": [["connect"], *asks, ["close"]],
        "server": served(*answers, ["until_closed"], ["close"]),
        "rules": [{"direction": TO_CLIENT, "segments": [count - 1], "kind": "data", "times": 1}],
        "causes": [cause(of.TAIL_LOSS, "server", {"lost": [TO_CLIENT, count - 1]})],
    }


def double_loss(chance: Random) -> Scenario:
    """The retransmission is lost too, and no later data reveals that."""
    asks, answers = exchange(9 * MSS)
    which = chance.randint(1, 4)
    return {
        "rtt_ms": rtt(chance, 5, 150),
        "client": [["connect"], *asks, ["close"]],
        "server": served(*answers, ["until_closed"], ["close"]),
        "rules": [{"direction": TO_CLIENT, "segments": [which], "kind": "data", "times": 2}],
        "causes": [cause(of.DOUBLE_LOSS, "server", {"lost": [TO_CLIENT, which]})],
        "may": [of.FAST_RECOVERY],
    }


def fast_recovery(chance: Random) -> Scenario:
    size = chance.randint(80, 200)
    asks, answers = exchange(size * MSS)
    lost = sorted(chance.sample(range(12, 50), chance.randint(1, 2)))
    return {
        "rtt_ms": rtt(chance, 2, 150),
        "client": [["connect"], *asks, ["close"]],
        "server": served(*answers, ["until_closed"], ["close"]),
        "rules": [{"direction": TO_CLIENT, "segments": lost, "kind": "data", "times": 1}],
        "sysctls": WIDE,
        "causes": [cause(of.FAST_RECOVERY, "server")],
        "may": [of.SPURIOUS, of.CONGESTION_WINDOW],
    }


def spurious(chance: Random) -> Scenario:
    """The ACK of a response is lost, so that it is sent again although it arrived."""
    asks, answers = exchange(chance.randint(300, 1400))
    more_asks, more_answers = exchange(500)
    pause = 900
    return {
        "rtt_ms": rtt(chance, 2, 100),
        "client": [["connect"], *asks, ["sleep", pause], *more_asks, ["close"]],
        "server": served(*answers, *more_answers, ["until_closed"], ["close"]),
        "rules": [
            {
                "direction": TO_SERVER,
                "kind": "ack",
                "after_segment": 0,
                "times": chance.randint(1, 2),
            }
        ],
        "causes": [cause(of.SPURIOUS, "server")],
        "may": [of.APPLICATION],
        "places": ["server", "between"],
    }


def nagle_and_delayed_ack(chance: Random) -> Scenario:
    count = chance.randint(5, 40)
    sizes = (chance.randint(50, 400), chance.randint(50, 900))
    parts, size = [["send", size] for size in sizes], sum(sizes)
    return {
        "rtt_ms": rtt(chance, 0.5, 60),
        "client": [["connect"], *[["send", 100], ["recv", size]] * count, ["close"]],
        "server": served(*[["recv", 100], *parts] * count, ["until_closed"], ["close"]),
        "causes": [cause(of.NAGLE_AND_DELAYED_ACK, "client", {"nagle": size})],
        "may": [of.NAGLE],
    }


def delayed_ack(chance: Random) -> Scenario:
    """The server thinks for longer than its delayed ACK takes: nobody waits for that ACK.

    It has answered at once before, so that its kernel takes the connection for interactive
    (tcp_event_data_sent), and no pause is longer than the RTO, after which it would not.
    """
    client, server = [], []
    for _ in range(20):
        asks, answers = exchange(300)
        client += asks
        server += answers
    for _ in range(chance.randint(5, 12)):
        asks, answers = exchange(chance.randint(200, 1000), chance.randint(100, 180))
        client += asks
        server += answers
    return {
        "rtt_ms": rtt(chance, 0.5, 40),
        "client": [["connect"], *client, ["close"]],
        "server": served(*server, ["until_closed"], ["close"]),
        "causes": [cause(of.DELAYED_ACK), cause(of.APPLICATION, "server", {"sleeps": "server"})],
    }


def slow_server(chance: Random) -> Scenario:
    client, server = [], []
    for _ in range(chance.randint(1, 6)):
        asks, answers = exchange(chance.randint(200, QUICK), chance.randint(60, 3000))
        client += asks
        server += answers
    return {
        **shape(chance),
        "client": [["connect"], *client, ["close"]],
        "server": served(*server, ["until_closed"], ["close"]),
        "causes": [cause(of.APPLICATION, "server", {"sleeps": "server"})],
        "offloads": chance.random() < 0.3,
    }


def slow_client(chance: Random) -> Scenario:
    base = shape(chance)
    client, server = [["connect"]], []
    for _ in range(chance.randint(2, 6)):
        asks, answers = exchange(chance.randint(200, QUICK))
        client += [*asks, ["sleep", chance.randint(60, 3000) + 2 * base["rtt_ms"]]]
        server += answers
    asks, answers = exchange(1000)
    return {
        **base,
        "client": [*client, *asks, ["close"]],
        "server": served(*server, *answers, ["until_closed"], ["close"]),
        "causes": [cause(of.APPLICATION, "client", {"sleeps": "client"})],
        "offloads": chance.random() < 0.3,
    }


def zero_window(chance: Random) -> Scenario:
    size = chance.randint(100_000, 400_000)
    pause = chance.randint(800, 4000)
    return {
        "rtt_ms": rtt(chance, 0.5, 60),
        "client": [
            ["option", "SOL_SOCKET", "SO_RCVBUF", 16_384],
            ["connect"],
            ["send", 200],
            ["sleep", pause],
            ["recv", size],
            ["close"],
        ],
        "server": served(["recv", 200], ["send", size], ["until_closed"], ["close"]),
        "causes": [cause(of.ZERO_WINDOW, "client")],
        "may": [of.FULL_WINDOW, of.SILLY_WINDOW],
    }


def silly_window(chance: Random) -> Scenario:
    size = chance.randint(20, 60) * 1000
    return {
        "rtt_ms": rtt(chance, 5, 60),
        "client": [
            ["option", "SOL_SOCKET", "SO_RCVBUF", 1],
            ["connect"],
            ["send", 200],
            ["recv", size],
            ["close"],
        ],
        "server": served(["recv", 200], ["send", size], ["until_closed"], ["close"]),
        "causes": [cause(of.SILLY_WINDOW, "client")],
        "may": [of.FULL_WINDOW, of.ZERO_WINDOW],
    }


def full_window(chance: Random) -> Scenario:
    size = chance.randint(800_000, 1_500_000)
    return {
        "rtt_ms": rtt(chance, 20, 150),
        "client": [
            ["option", "SOL_SOCKET", "SO_RCVBUF", chance.choice([16_384, 32_768, 50_000])],
            ["connect"],
            ["send", 200],
            ["recv", size],
            ["close"],
        ],
        "server": served(["recv", 200], ["send", size], ["until_closed"], ["close"]),
        "causes": [cause(of.FULL_WINDOW, "client")],
        "offloads": chance.random() < 0.3,
    }


def send_buffer(chance: Random) -> Scenario:
    """Writes of whole segments without Nagle's algorithm: otherwise Linux exceeds SO_SNDBUF."""
    write = 10 * MSS
    count = chance.randint(60, 100)
    granted = chance.choice([20_000, 40_000, 60_000])
    return {
        "rtt_ms": rtt(chance, 20, 150),
        "client": [["connect"], ["send", 200], ["recv", count * write], ["close"]],
        "server": served(
            ["option", "IPPROTO_TCP", "TCP_NODELAY", 1],
            ["option", "SOL_SOCKET", "SO_SNDBUF", granted],
            ["recv", 200],
            ["paced", count, write, 0],
            ["until_closed"],
            ["close"],
        ),
        "sysctls": WIDE,
        "causes": [cause(of.SEND_BUFFER, "server")],
        "offloads": chance.random() < 0.3,
    }


def congestion_window(chance: Random) -> Scenario:
    """An early loss ends slow start; from then on the window grows by a segment per round trip."""
    size = chance.randint(1_500_000, 2_500_000)
    return {
        "rtt_ms": rtt(chance, 30, 120),
        "client": [["connect"], ["send", 200], ["recv", size], ["close"]],
        "server": served(["recv", 200], ["send", size], ["until_closed"], ["close"]),
        "sysctls": {**WIDE, "server": {"tcp_congestion_control": chance.choice(["reno", "cubic"])}},
        "rules": [
            {
                "direction": TO_CLIENT,
                "segments": [chance.randint(20, 40)],
                "kind": "data",
                "times": 1,
            }
        ],
        "causes": [cause(of.CONGESTION_WINDOW, "server")],
        "may": [of.SPURIOUS, of.FAST_RECOVERY],
    }


def path_full(chance: Random) -> Scenario:
    rate, base = chance.choice([5, 10, 20]), rtt(chance, 10, 80)
    size = int(rate * 1e6 / 8 * chance.uniform(2, 3))
    return {
        "rtt_ms": base,
        "rate_mbit": rate,
        "client": [["connect"], ["send", 200], ["recv", size], ["close"]],
        "server": served(["recv", 200], ["send", size], ["until_closed"], ["close"]),
        "sysctls": WIDE,
        "causes": [cause(of.PATH, "server")],
        "may": [of.FULL_WINDOW],
    }


def slow_start(chance: Random) -> Scenario:
    size = chance.randint(100_000, 500_000)
    return {
        "rtt_ms": rtt(chance, 40, 200),
        "client": [["connect"], ["send", 200], ["recv", size], ["close"]],
        "server": served(["recv", 200], ["send", size], ["until_closed"], ["close"]),
        "sysctls": WIDE,
        "causes": [cause(of.SLOW_START, "server")],
        "may": [of.CONGESTION_WINDOW],
    }


def handshake(chance: Random) -> Scenario:
    asks, answers = exchange(chance.randint(100, 1400))
    base = rtt(chance, 50, 250)
    return {
        "rtt_ms": base,
        "client": [["connect"], *asks, ["close"]],
        "server": served(*answers, ["until_closed"], ["close"]),
        "causes": [cause(of.HANDSHAKE, None)],
    }


def turns(chance: Random, text: tuple[str, str], reason: of.Reason) -> Scenario:
    count = chance.randint(4, 15)
    client = [["connect"], *[["send", 200, text[0]], ["recv", 900]] * count, ["close"]]
    server = served(*[["recv", 200], ["send", 900, text[1]]] * count, ["until_closed"], ["close"])
    return {
        "rtt_ms": rtt(chance, 10, 150),
        "client": client,
        "server": server,
        "causes": [cause(reason)],
    }


def http_turns(chance: Random) -> Scenario:
    return turns(chance, ("GET / HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n"), of.HTTP_TURN)


def tls_turns(chance: Random) -> Scenario:
    return turns(chance, ("\x16\x03\x01", "\x16\x03\x03"), of.TLS_TURN)


def keep_alive(chance: Random) -> Scenario:
    asks, answers = exchange(chance.randint(200, 2000))
    alive = [
        ["option", "SOL_SOCKET", "SO_KEEPALIVE", 1],
        ["option", "IPPROTO_TCP", "TCP_KEEPIDLE", 1],
        ["option", "IPPROTO_TCP", "TCP_KEEPINTVL", 1],
    ]
    pause = chance.randint(2500, 6000)
    return {
        "rtt_ms": rtt(chance, 0.5, 100),
        "client": [*alive, ["connect"], *asks, ["sleep", pause], *asks, ["close"]],
        "server": served(*answers, *answers, ["until_closed"], ["close"]),
        "causes": [cause(of.KEEP_ALIVE), cause(of.APPLICATION, "client", {"sleeps": "client"})],
    }


def gave_up(chance: Random) -> Scenario:
    """The client is gone: whatever the server sends is lost, until it gives up."""
    base = rtt(chance, 1, 60)
    asks, answers = exchange(1000)
    return {
        "rtt_ms": base,
        "client": [["connect"], *asks, ["recv", 1000]],
        "server": served(*answers, ["sleep", 400], ["send", 1000], ["until_closed"]),
        "sysctls": {"server": {"tcp_retries2": "5"}},
        "rules": [{"direction": TO_CLIENT, "after_segment": 1, "from_ms": 3 * base + 200}],
        "limit_s": 40,
        "causes": [cause(of.GAVE_UP, "server")],
        "may": [of.APPLICATION, of.TIMEOUT],
        "places": ["server"],
    }


def closed_late(chance: Random) -> Scenario:
    asks, answers = exchange(chance.randint(200, QUICK))
    pause = chance.randint(700, 5000)
    return {
        **shape(chance),
        "client": [["connect"], *asks, ["until_closed"], ["close"]],
        "server": served(*answers, ["sleep", pause], ["close"]),
        "causes": [cause(of.CLOSED_LATE, "server", {"sleeps": "server"})],
    }


def healthy(chance: Random) -> Scenario:
    client, server = [["connect"]], []
    for _ in range(chance.randint(1, 5)):
        asks, answers = exchange(chance.randint(200, QUICK))
        client += asks
        server += answers
    return {
        "rtt_ms": rtt(chance, 1, 100),
        "rate_mbit": 0,
        "client": [*client, ["close"]],
        "server": served(*server, ["until_closed"], ["close"]),
        "causes": [],
        "offloads": chance.random() < 0.5,
    }


def two_causes(chance: Random) -> Scenario:
    """A slow server, and one of four other causes on the same connection."""
    think = chance.randint(300, 2000)
    base = rtt(chance, 2, 80)
    kind = chance.randrange(4)
    asks, answers = exchange(6 * MSS, think)
    scenario: Scenario = {
        "rtt_ms": base,
        "client": [["connect"], *asks],
        "server": served(*answers),
        "causes": [cause(of.APPLICATION, "server", {"sleeps": "server"})],
    }
    more_asks, more_answers = exchange(1000)
    if kind == 0:
        scenario["rules"] = [{"direction": TO_CLIENT, "segments": [5], "kind": "data", "times": 1}]
        scenario["causes"].append(cause(of.TAIL_LOSS, "server", {"lost": [TO_CLIENT, 5]}))
    elif kind == 1:
        scenario["client"].append(["sleep", 500 + 2 * base])
        scenario["causes"].append(cause(of.APPLICATION, "client", {"sleeps": "client"}))
    elif kind == 2:
        scenario["rules"] = [{"direction": TO_SERVER, "kind": "syn", "times": 1}]
        scenario["causes"].append(cause(of.SYN_REPEATED, None, {"connect": True}))
        scenario["places"] = ["client"]
    else:
        scenario["client"] += [["send", 100], ["recv", 300]] * 9
        scenario["server"] += [["recv", 100], ["send", 100], ["send", 200]] * 9
        scenario["causes"].append(cause(of.NAGLE_AND_DELAYED_ACK, "client", {"nagle": 300}))
        scenario["may"] = [of.NAGLE]
    scenario["client"] += [*more_asks, ["close"]]
    scenario["server"] += [*more_answers, ["until_closed"], ["close"]]
    return scenario


CAUSES: Final[dict[of.Reason | str, Callable[[Random], Scenario]]] = {
    of.REFUSED: refused,
    of.UNANSWERED: unanswered,
    of.FILTERED: filtered,
    of.SYN_REPEATED: syn_repeated,
    of.RESET: reset,
    of.TIMEOUT: timeout,
    of.TAIL_LOSS: tail_loss,
    of.DOUBLE_LOSS: double_loss,
    of.FAST_RECOVERY: fast_recovery,
    of.SPURIOUS: spurious,
    of.NAGLE_AND_DELAYED_ACK: nagle_and_delayed_ack,
    of.DELAYED_ACK: delayed_ack,
    "slow server": slow_server,
    "slow client": slow_client,
    of.ZERO_WINDOW: zero_window,
    of.SILLY_WINDOW: silly_window,
    of.FULL_WINDOW: full_window,
    of.SEND_BUFFER: send_buffer,
    of.CONGESTION_WINDOW: congestion_window,
    of.PATH: path_full,
    of.SLOW_START: slow_start,
    of.HANDSHAKE: handshake,
    of.HTTP_TURN: http_turns,
    of.TLS_TURN: tls_turns,
    of.KEEP_ALIVE: keep_alive,
    of.GAVE_UP: gave_up,
    of.CLOSED_LATE: closed_late,
    "healthy": healthy,
    "two causes": two_causes,
}


def drawn(seed: int, each: int) -> list[Scenario]:
    """`each` scenarios per cause, with kernel and place of capture, drawn from the seed."""
    made: list[Scenario] = []
    for group, of_cause in CAUSES.items():
        chance = Random(f"{seed} {group}")
        for number in range(each):
            scenario = of_cause(chance)
            scenario["may"] = [str(reason) for reason in scenario.get("may", ())]
            scenario["name"] = f"{str(group).replace(' ', '-')}-{number:02}"
            scenario["group"] = str(group)
            scenario["kernel"] = KERNELS[number % len(KERNELS)]
            scenario["place"] = chance.choice(scenario.pop("places", list(PLACES)))
            scenario["ports"] = [10_000 + len(made)]
            made.append(scenario)
    return made
