"""The claims page: a row per claim with figures, evidence, commands; hostile texts as text."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import pytest

from labs.catalog import find
from labs.publish.claims_page import Judged, Links, body, search_entries
from labs.publish.repeat_command import commands
from labs.read.claims.ledger import read
from labs.read.claims.verdict import DIFFERS, HOLDS, JudgedRuns, Verdict, Witness
from tests.made_verdicts import verdict

ATTACK = "<img src=x onerror=alert(1)><script>alert(1)</script>"


def runs(*conditions: str, **parameters: object) -> JudgedRuns:
    digests = dict.fromkeys(conditions, "0" * 12)
    files = ("buffers.tar.xz",)
    return JudgedRuns("buffers", len(digests), digests, parameters, ("k",), ("c",), ("t",), files)


def on(kernel: str, testbed: str = "virtual", **changed: Any) -> Verdict:
    fields = {"witness": Witness(testbed, kernel), "behind": runs("shaped"), **changed}
    return verdict(**fields)


def judged(*verdicts: Verdict) -> Judged:
    lab = find("buffers")
    assert lab.ledger is not None
    return Judged(lab, read(lab.ledger), verdicts)


def in_parts() -> Verdict:
    """A claim that holds on 6.1 and differs on 6.12."""
    parts = (
        on("6.1.192", verdict=HOLDS, factor=None, where="Linux 6.1"),
        on("6.12.117", measured=200.0, where="Linux 6.12"),
    )
    return replace(verdict(verdict="holds on Linux 6.1, not on 6.12", factor=None), parts=parts)


def test_body_has_each_kernel_with_its_verdict_and_figures() -> None:
    page = body([judged(in_parts())], Links({"A1.2": ("n.html#chart-1", "Goodput")}, "data/"))
    assert 'data-verdicts="virtual|6.1|holds;virtual|6.12|differs"' in page
    assert page.count('<span class="word') == 2
    assert re.findall(r"<dd>([^<]+)</dd>", page) == [
        *("91.6 MiB/s", "114 MiB/s", "114 MiB/s"),
        *("91.6 MiB/s", "114 MiB/s", "200 MiB/s"),
    ]
    assert '<a href="n.html#chart-1">' in page
    assert '<a href="data/buffers.tar.xz">' in page
    assert (
        "<pre>labs run buffers --only shaped --kernel 6.1,6.12\nlabs claims --id A1.2</pre>" in page
    )


def test_body_offers_what_the_verdicts_have() -> None:
    page = body([judged(in_parts(), on("6.1.0-56-amd64", "vagrant", id="A1.3"))], Links())
    assert re.findall(r'<option value="([^"]+)">', page) == [
        *("1", "6.1", "6.12", "virtual", "vagrant"),
        *(HOLDS, DIFFERS),
    ]


@pytest.mark.parametrize("field", ["statement", "reason", "unit", "tolerance_reason", "link"])
def test_body_shows_hostile_texts_as_text(field: str) -> None:
    page = body([judged(on("6.1.192", **{field: ATTACK}))], Links())
    assert "<img" not in page and "<script" not in page
    assert html.escape(ATTACK, quote=False) in page


def test_search_entries_lead_to_the_claim() -> None:
    ((address, title, text),) = search_entries([judged(on("6.1.192"))])
    assert (address, text) == ("index.html#A1.2", "It is fast. no machine")
    assert title.startswith("A1.2: differs")


def test_commands_name_what_is_not_the_default() -> None:
    vagrant = on("6.1.0-56-amd64", "vagrant", behind=runs("both", rate_mbit=100, size="small"))
    many = runs(*(f"sweep-{number}k" for number in range(20)), only="", size="full")
    every = [on("6.1.192"), on("7.2.13"), vagrant, on("6.1.192", behind=many)]
    assert commands(find("buffers"), replace(verdict(), witnesses=tuple(every))) == [
        "labs run buffers --only shaped --kernel 6.1,7.2",
        "labs run buffers --testbed vagrant --rate-mbit 100 --only both",
        "labs run buffers --size full --kernel 6.1",
    ]


def test_commands_of_a_claim_without_runs() -> None:
    assert commands(find("buffers"), verdict(witness=None)) == []
