"""The samples of a receiving socket."""

from __future__ import annotations

import pytest

from labs.errors import Damaged
from labs.read.parse.socket_samples import SAMPLED, TRUESIZES, samples, truesizes

HEAD = ",".join((*SAMPLED, "TCPRcvQDrop", "BeyondWindow"))
ROW = "1790000000000000000,1,2,1024,1024,2304,65536,0,0,32768,14600,536,1024,-1,0,0,"


def test_samples_of_a_kernel_without_rcv_wnd_and_a_counter() -> None:
    (one,) = samples(f"{HEAD}\n{ROW}\n")
    assert (one.data_segs_in, one.rcvbuf, one.rcv_wnd) == (1, 65536, None)
    assert one.counters == {"TCPRcvQDrop": 0, "BeyondWindow": None}


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD,
        ROW,
        f"{HEAD}\n{ROW},1",
        f"{HEAD}\n{ROW.replace('1024', '', 1)}",
        f"{HEAD}\n{ROW.replace('1024', 'x', 1)}",
        f"{HEAD}\n{ROW.replace('1024', '9' * 19, 1)}",
        f"{HEAD},BeyondWindow\n{ROW},",
    ],
)
def test_samples_refuses_what_the_receiver_cannot_have_written(text: str) -> None:
    with pytest.raises(Damaged):
        samples(text)


def test_truesizes_are_pairs() -> None:
    assert truesizes(f"{TRUESIZES}\n64,768\n704,1280\n") == ((64, 768), (704, 1280))


@pytest.mark.parametrize(
    "text",
    ["", TRUESIZES, "64,768", f"{TRUESIZES}\n64", f"{TRUESIZES}\n64,63", f"{TRUESIZES}\nx,768"],
)
def test_truesizes_refuses_what_the_receiver_cannot_have_written(text: str) -> None:
    with pytest.raises(Damaged):
        truesizes(text)
