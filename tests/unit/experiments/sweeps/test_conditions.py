"""The conditions of the lab `sweeps`."""

from __future__ import annotations

from collections import Counter

import pytest

from labs.catalog import find
from labs.drive.parameters.declare import check
from labs.errors import BadInput
from labs.experiments.sweeps import conditions as sweeps
from labs.experiments.sweeps.conditions import Parameters as Sweeps
from labs.guest.condition import Condition

KIB, MIB = 1 << 10, 1 << 20


def every(**given: object) -> dict[str, Condition]:
    conditions = find("sweeps").conditions(Sweeps(size="full", **given))  # type: ignore[arg-type]
    return {condition.name: condition for condition in conditions}


def test_conditions_by_size_and_testbed() -> None:
    small = [condition.name for condition in sweeps.conditions(Sweeps())]
    assert len(small) == 55 and set(small) < set(every())
    on_machines = [condition.name for condition in sweeps.conditions(Sweeps(testbed="vagrant"))]
    assert on_machines == ["default", *(f"both-{kib}" for kib in ("16k", "64k", "256k"))] + [
        f"both-{mib}m" for mib in (1, 4, 16)
    ]


def test_conditions_on_machines_have_a_rate_that_they_carry() -> None:
    given = Sweeps.testbed_defaults("vagrant", "small")
    assert (given["rate_mbit"], given["delay_ms"]) == (100, 20)
    assert Sweeps.testbed_defaults("virtual", "small") == {}


def test_conditions_are_the_articles_five_series_and_the_surface() -> None:
    counts = Counter(condition.group for condition in every().values())
    assert list(counts) == [group.name for group in sweeps.GROUPS]
    # Six sizes at both ends, at each end, and of the sender for two receivers, and the defaults.
    assert counts["article"] == 3 * 6 + 2 * 7 + 1
    assert counts["surface"] == 6 * 3


def test_conditions_differ_as_their_names_say() -> None:
    conditions = every()
    default: dict[str, object] = dict(conditions["default"].settings)
    assert (default["write_bytes"], default["transfer_bytes"]) == (2048, 8 * MIB)
    changes: dict[str, dict[str, object]] = {
        "both-1m": {"window_kib": 1024},
        "sender-1m": {"sndbuf_kib": 1024},
        "receiver-1m": {"rcvbuf_kib": 1024},
        "fixed-8m-16m": {"sndbuf_kib": 16384, "rcvbuf_kib": 8192},
        "surface-4m-1m": {"sndbuf_kib": 4096, "rcvbuf_kib": 1024},
        "writes-16384-nodelay": {"write_bytes": 16384, "nodelay": True, "sndbuf_kib": 64},
        "writes-16384-burst": {"write_bytes": 16384, "writes_per_wake": 1000, "sndbuf_kib": 64},
        "w-1g": {"window_kib": MIB, "may_be_refused": True},
        "setsockopt": {"grants": True},
    }
    for name, change in changes.items():
        assert {**conditions[name].settings, "transfer_bytes": 8 * MIB} == {**default, **change}, (
            name
        )


def test_conditions_shorten_the_transfers_of_small_buffers() -> None:
    """50 round trips of the 32 KiB that are granted for 16 KiB; 64 KiB through the smallest."""
    conditions = every()
    assert conditions["both-16k"].settings["transfer_bytes"] == 50 * 32 * KIB
    assert conditions["w-1k"].settings["transfer_bytes"] == 64 * KIB


def test_condition_fixes_one_buffer_at_what_a_request_is_granted() -> None:
    """setsockopt(7) doubles the value; tcp_wmem[1] and tcp_rmem[1] are taken as they are."""
    conditions = every()
    assert conditions["sender-64k"].sysctls == {"server": {sweeps.WMEM: "4096 131072 131072"}}
    assert conditions["receiver-64k"].sysctls == {"client": {sweeps.RMEM: "4096 131072 131072"}}
    assert conditions["default"].sysctls == conditions["both-64k"].sysctls == {}


def test_condition_raises_the_core_maxima_only_where_a_request_needs_it() -> None:
    raised = {
        name: condition.sysctls["server"]["net.core.rmem_max"]
        for name, condition in every().items()
        if "net.core.rmem_max" in condition.sysctls.get("server", {})
    }
    requests = {"256k": 256, "1m": 1024, "4m": 4096, "16m": 16384}
    expected = {f"both-{name}": str(kib * KIB) for name, kib in requests.items()}
    assert raised == {**expected, "overflow": expected["both-4m"]}


@pytest.mark.parametrize(
    ("kib", "name"), [(1, "1k"), (208, "208k"), (1536, "1536k"), (4096, "4m"), (1 << 20, "1g")]
)
def test_size_name_is_short(kib: int, name: str) -> None:
    assert sweeps.size_name(kib) == name


def test_parameters_refuse_a_link_without_rtt_in_one_line() -> None:
    with pytest.raises(BadInput) as error:
        check(Sweeps, {"delay_ms": 0.0})
    assert str(error.value) == "delay_ms = 0.0 is out of range; allowed: a number, 0.01 to 10000 ms"


def test_parameters_refuse_a_write_that_iperf3_refuses() -> None:
    """MAX_BLOCKSIZE of iperf3 is 1 MiB."""
    with pytest.raises(BadInput, match="allowed: a whole number, 1 to 1048576 bytes"):
        check(Sweeps, {"write_bytes": MIB + 1})
