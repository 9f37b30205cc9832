"""Results of a run are computed once for all processes, and again if the code or run differs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from labs.drive.record import kept_answers
from labs.drive.result_columns import Note, column, columns_of
from labs.read import run_results
from labs.read.run_results import Computation, Found, kept_results


class Results:
    def __init__(self, read: list[str]) -> None:
        self.read = read
        read.append("run")

    @column("goodput", unit="Mbit/s", predicted_by="predicted_mbit")
    def goodput_mbit(self) -> float:
        return 1 / 3

    @column("congestion control")
    def control(self) -> str | None:
        return None

    @column("whether the link is full")
    def full(self) -> bool:
        return True

    @column("predicted goodput", unit="Mbit/s", costly=True)
    def predicted_mbit(self) -> float:
        self.read.append("prediction")
        return 0.1 + 0.2

    def notes(self) -> Iterator[Note]:
        yield Note("short", "too short", excludes=True)


class Reader:
    """Computes results, and counts how often."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def compute(self) -> Computation:
        return Computation(partial(Results, self.read), columns_of(Results), nullcontext)

    def found(self, digest: str = "d1", condition: str = "both") -> Found:
        """What another process finds: nothing is left in the memory of this one."""
        kept_answers._known.cache_clear()
        return kept_results("lab", digest, {"condition": condition}, self.compute)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield Reader()
    kept_answers._known.cache_clear()


def test_second_process_finds_the_same_results_and_reads_nothing(reader: Reader) -> None:
    first = reader.found()
    assert first.values["goodput_mbit"] == 1 / 3
    assert reader.read == ["run"]
    second = reader.found()
    assert reader.read == ["run"]
    assert (second.values["goodput_mbit"], second.values["control"]) == (1 / 3, None)
    assert second.values["full"] is True
    assert second.notes == first.notes == (Note("short", "too short", excludes=True),)
    assert list(second.values) == list(first.values)


def test_costly_column_is_kept_once_it_was_read(reader: Reader) -> None:
    reader.found()
    assert reader.found().values["predicted_mbit"] == 0.1 + 0.2
    assert reader.read == ["run", "run", "prediction"]
    assert reader.found().values["predicted_mbit"] == 0.1 + 0.2
    assert reader.read == ["run", "run", "prediction"]


def test_other_run_changed_copy_and_other_code_are_read_again(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.found()
    reader.found("d2")
    assert reader.read == ["run"] * 2
    reader.found("d2", "wmem")
    assert reader.read == ["run"] * 3
    monkeypatch.setattr(run_results, "code_of", lambda lab: "0" * 32)
    reader.found("d2")
    assert reader.read == ["run"] * 4


def test_unknown_column_is_a_key_error(reader: Reader) -> None:
    found = reader.found()
    with pytest.raises(KeyError):
        found.values["rtt_ms"]
    assert "rtt_ms" not in found.values


def test_error_is_not_kept(reader: Reader) -> None:
    def broken() -> Computation:
        raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        kept_results("lab", "d1", {"condition": "both"}, broken)
    assert reader.found().values["goodput_mbit"] == 1 / 3
