"""What tools printed, next to the article's output."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from pandas import DataFrame

from labs.drive.result_columns import values_of
from labs.experiments.buffers.figures import as_printed, by_client
from labs.experiments.buffers.results import Results
from labs.guest.units import GIB
from labs.read.runs.run import Run
from tests.real_runs import real, with_condition, with_link


def study_of(*runs: Run) -> Any:
    rows = [{"condition": run.condition, **values_of(Results(run))} for run in runs]
    return SimpleNamespace(runs=list(runs), results=lambda: DataFrame(rows))


def of_the_article(run: Run) -> Run:
    """The run as if it had the article's link and file; what it printed stays as it is."""
    link = {"rate_mbit": 1000.0, "delay_ms": 200.0, "queue_packets": None}
    return with_link(with_condition(run, link=link, settings={"transfer_bytes": GIB}), **link)


def test_as_printed_has_the_lines_of_wget() -> None:
    """2 MiB in 1.8 s, as wget wrote it: a line of its progress, and its last line."""
    table = as_printed(study_of(real("wget"), real("captured")))
    assert list(table["Command"]) == ["wget, default"]
    assert list(table["This run"]) == ["0K ... 100% 1.11M 1.8s ... (1.11 MB/s)"]
    assert "Article" not in table  # for another link


def test_as_printed_is_next_to_the_article_on_its_link() -> None:
    """The article's download with default buffers shows 13.4 MB/s at 15 %."""
    (told,) = as_printed(study_of(of_the_article(real("wget"))))["Article"]
    assert told == "15% 13.4MB/s"


def test_by_client_compares_downloads_of_both() -> None:
    """Both clients read all that arrives, so they are equal within wget's three digits."""
    wget, built_in = real("wget"), real("captured")
    other = with_condition(built_in, name=wget.condition)
    table = by_client(study_of(wget), study_of(replace(other)))
    assert list(table["Condition"]) == ["default"]
    assert abs(table["Built-in client over wget (%)"].iloc[0]) < 1
    assert table["wget's own figure, whole file"].iloc[0] == 1.11
