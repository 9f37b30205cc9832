"""What a measured kernel is held to; the measurement itself is tested in tests/virtual."""

from __future__ import annotations

import pytest

from labs.drive.kernel import check


def measured(**changes: object) -> dict[str, object]:
    """What the rig prints on a sound 6.1 kernel."""
    return {
        "release": "6.1.192",
        "hz": 250,
        "virtual_time": True,
        "memory_kib": 1011072,
        "random": "87d79117cd9e4092",
        "rtt_ms": 200.001,
        "packet_overhead": 1280,
        "adv_win_scale_0": {"skmem_r": 73984, "skmem_rb": 65536, "recv_q": 62464},
        "adv_win_scale_1": {"skmem_r": 62464, "skmem_rb": 65536, "recv_q": 57344},
        "differs": [],
        **changes,
    }


def test_judge_passes_a_sound_kernel() -> None:
    assert check.judge(measured(), "6.1.192") == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rtt_ms": 0.02}, "a link of 200 ms has an RTT of 0.02 ms"),
        ({"rtt_ms": 203.0}, "203.0 ms"),
        ({"virtual_time": False}, "UML_TIME_TRAVEL_SUPPORT"),
        ({"differs": ["memory_kib"]}, "two boots differ in memory_kib"),
        ({"release": "6.1.99"}, "it reports release 6.1.99, not 6.1.192"),
        ({"packet_overhead": 768}, "packet_overhead is 768, expected 1,280"),
        (
            {"adv_win_scale_0": {"skmem_r": 67584, "skmem_rb": 65536, "recv_q": 64512}},
            "adv_win_scale_0.skmem_r is 67,584, expected 73,984",
        ),
    ],
)
def test_judge_names_each_fault_with_its_figure(changes: dict[str, object], says: str) -> None:
    assert says in "; ".join(check.judge(measured(**changes), "6.1.192"))


def test_judge_holds_an_unpublished_series_to_no_figure() -> None:
    odd = measured(release="6.18.5", adv_win_scale_0={"skmem_r": 1, "skmem_rb": 2, "recv_q": 3})
    assert check.judge(odd, "6.18.5") == ()
    assert not check.judged("6.18.5")
    assert [row["expected"] for row in check.compared(odd)] == [200, *[None] * 7]
