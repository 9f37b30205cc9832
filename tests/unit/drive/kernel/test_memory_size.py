"""How much memory a guest gets, by the series of its kernel."""

from __future__ import annotations

import pytest

from labs.drive.kernel.memory_size import guest_memory_mib


@pytest.mark.parametrize(
    ("least_mib", "series", "given_mib"),
    [
        (4096, "5.10", 4096),
        (4096, "6.1", 4096),
        (4096, "6.15", 4096),
        (4096, "6.16", 5120),
        (4096, "7.2", 5120),
        (1024, "7.2", 5120),
        (8192, "7.2", 8192),
        (4096, "", 4096),
    ],
)
def test_guest_memory_mib(least_mib: int, series: str, given_mib: int) -> None:
    assert guest_memory_mib(least_mib, series) == given_mib
