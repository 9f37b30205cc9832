"""Runs made here are judged as those that were recorded: on both kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.catalog import find
from labs.experiments.buffers.parameters import Buffers
from labs.launch.launch import run as make
from labs.read.claims.judge import verdicts

# Short ones: a few seconds of transfer, or none at all; and wmem, which the kernels differ in.
CONDITIONS = "httping,wmem,adv-m2,adv-2,setsockopt"
ALIKE = {
    "A1.4": "holds",
    "A1.5": "wrong",
    "A1.11": "held until kernel 6.5",
    "A1.13": "held until kernel 6.15",
    "A1.14": "holds",
    "A1.15": "holds",
}


@pytest.mark.parametrize(
    ("kernel", "wmem"),
    [
        pytest.param("6.1", "holds"),
        pytest.param("6.12", "held until kernel 6.5", marks=pytest.mark.kernel("6.12")),
    ],
)
def test_article_1_is_judged_by_fresh_runs(tmp_path: Path, kernel: str, wmem: str) -> None:
    study = make(find("buffers"), Buffers(runs=str(tmp_path), kernel=kernel, only=CONDITIONS))
    found = {one.id: one for one in verdicts(find("buffers"), study.runs)}
    assert {id_: found[id_].verdict for id_ in ALIKE} == ALIKE
    assert found["A1.7"].verdict == wmem
    assert found["A1.7"].witness is not None
    assert found["A1.7"].witness.kernel.startswith(f"{kernel}.")
    assert found["A1.6"].reason.startswith("needs the condition default")
