"""Answers of the model that another process finds again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.record import kept_answers
from labs.read.theory import bulk
from labs.read.theory.bulk import simulated, transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_simulation import DIGEST

FLOWS = (
    Flow(rate_mbit=100.0, rtt_ms=40.0, kernel="6.1"),
    Flow(rate_mbit=33.3, rtt_ms=7.1, kernel="7.2", sndbuf_bytes=65_536, sndbuf_locked=True),
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of kept answers of a new user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _forget()
    yield tmp_path / "labs" / "answers" / f"{DIGEST}.jsonl"
    _forget()


def _forget() -> None:
    """As in a new process."""
    transfer.cache_clear()
    kept_answers._known.cache_clear()


def refused() -> str:
    raise AssertionError("simulated again")


@pytest.mark.parametrize(
    ("flow", "transfer_bytes"), [(FLOWS[0], 2_000_000), (FLOWS[1], 2_000_000), (FLOWS[0], 1000)]
)
def test_transfer_reads_back_what_was_simulated(
    file: Path, monkeypatch: pytest.MonkeyPatch, flow: Flow, transfer_bytes: int
) -> None:
    now = simulated(flow, transfer_bytes)
    assert bool(now.cannot_say) == (transfer_bytes == 1000)
    assert transfer(flow, transfer_bytes) == now
    assert file.stat().st_mode & 0o777 == 0o600
    _forget()
    monkeypatch.setattr(bulk, "simulated", lambda *_: refused())
    assert transfer(flow, transfer_bytes) == now  # to the last digit
    with pytest.raises(AssertionError, match="simulated again"):
        transfer(flow, transfer_bytes + 1)
