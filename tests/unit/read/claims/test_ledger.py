"""The ledger: the article's figures as they stand in it, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.catalog import EXPERIMENTS, find
from labs.errors import BadInput
from labs.experiments.buffers.results import article
from labs.experiments.buffers.results import parameter as of_buffers
from labs.read.claims.judge import check_columns
from labs.read.claims.ledger import Article, parameter, read
from labs.read.claims.verdict import WORDS
from tests.real_runs import real

ROOT = Path(__file__).parents[4]
LEDGER = article()


def test_parameter_of_a_run() -> None:
    run = real("both-1gib")
    said = {name: parameter(run, name, of_buffers) for name in LEDGER.parameters}
    assert said == dict(LEDGER.parameters)
    assert parameter(real("limit"), "buffer_mib", of_buffers) is None  # set by neither side
    assert parameter(run, "seed", of_buffers) is None


# No verdict is written down: not in the data, and not in a notebook.


def texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from texts(each)
        case list():
            for each in value:
                yield from texts(each)


def test_ledgers_have_no_verdict() -> None:
    for path in EXPERIMENTS.glob("*/*.toml"):
        for text in texts(tomllib.loads(path.read_text())):
            assert text.strip().lower() not in WORDS, (path.name, text)


def test_notebooks_have_no_verdict() -> None:
    verdict = re.compile(rf"\bA\d\.\d+\b.*\b({'|'.join(map(re.escape, WORDS))})\b", re.I)
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        for cell in json.loads(path.read_text())["cells"]:
            for line in "".join(cell["source"]).splitlines():
                assert verdict.search(line) is None, (path.name, line)


# What it refuses, in one line that names the claim.

HEAD = """
[article]
number = 1
title = "A title"
lab = "buffers"
kernels = "5.5"
[article.parameters]
rate_mbit = 1000.0
"""
CLAIM = {
    "id": '"A1.1"',
    "statement": '"It is fast."',
    "expected": "13.4",
    "unit": '"MiB/s"',
    "conditions": '["default"]',
    "column": '"steady_mib_s"',
    "tolerance_pct": "3.0",
    "tolerance_reason": '"three digits"',
}


def ledger(folder: Path, *claims: dict[str, str], head: str = HEAD) -> Path:
    path = folder / "article1.toml"
    path.write_text(
        head
        + "".join(
            "\n[[claim]]\n" + "".join(f"{name} = {value}\n" for name, value in claim.items())
            for claim in claims
        )
    )
    return path


def with_(**changed: str | None) -> dict[str, str]:
    """A claim that is right but for what is changed; None leaves a field out."""
    return {name: value for name, value in {**CLAIM, **changed}.items() if value is not None}


def test_read_of_a_right_claim(tmp_path: Path) -> None:
    found = read(
        ledger(
            tmp_path,
            with_(),
            with_(
                id='"A1.2"',
                expected="{ mean = 1.0, end = 2.0 }",
                column='{ mean = "a", end = "b" }',
            ),
        )
    )
    assert isinstance(found, Article)
    assert [claim.allowed for claim in found.claims] == [0.03, 0.03]


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (with_(verdict='"holds"'), "verdict is not a field; allowed: id"),
        (with_(measured="13.5"), "measured is not a field"),
        (with_(colum='"x"'), "colum is not a field; did you mean column?"),
        (with_(zork="1"), "zork is not a field; allowed: id, statement"),
        (with_(expected="0.0"), "expected is 0, for which no tolerance in % is possible"),
        (with_(expected="nan"), "is not a finite number"),
        (with_(expected="9" * 400), "is not a finite number"),
        (with_(statement='"a\\u001b[31m"'), "a\\x1b[31m has a control character"),
        (with_(conditions='["a\\nb"]'), "a\\nb has a control character"),
        (with_(unit="3"), "unit = 3 is not possible; allowed: a text"),
        (with_(tolerance_pct="true"), "tolerance_pct = True is not possible; allowed: a number"),
        (with_(unit=None, expected=None), "it has no expected and no unit"),
        (with_(id='"A1.x"'), "allowed: A<article>.<claim>"),
        (with_(id='"A1.2"'), "Allowed here: A1.1"),
        (
            with_(statement='" "'),
            "statement = ' ' is not possible; allowed: a text that is not empty",
        ),
        (with_(judge='"cap"'), "give one of column, rule and judge"),
        (with_(column=None), "give one of column, rule and judge"),
        (with_(conditions=None), "a column is read from a run: give its condition"),
        (with_(expected="{ mean = 1.0 }"), "expected and column must name the same figures"),
        (
            with_(expected='"fast"'),
            "expected = 'fast' is not possible; allowed where figures are compared",
        ),
        (with_(tolerance_pct=None, tolerance_reason=None), "a column needs a tolerance_pct"),
        (with_(tolerance_reason=None), "give tolerance_pct and tolerance_reason, or neither"),
        (
            with_(tolerance_pct="-1"),
            "tolerance_pct = -1 is not possible; allowed: a number, 0 or more",
        ),
        (with_(conditions='["loss-*"]'), "a column is of one condition: several need a rule"),
        (with_(conditions='["a", "b"]'), "a column is of one condition: several need a rule"),
        (
            with_(parameters='["rate_mbits"]'),
            "rate_mbits is not a parameter; did you mean rate_mbit?",
        ),
        (with_(changed='"x"'), "give changed and source, or neither"),
        (with_(until='"6.5"'), "until is not a field"),
        (with_(figure_parameters='{ mean = ["rate_mbit"] }'), "mean is not a figure"),
        (with_(shown='["mean"]'), "mean is not a figure"),
        (with_(shown_at='["rate"]'), "rate is not a parameter; did you mean rate_mbit?"),
        (
            with_(requires='{ default = "line" }'),
            "requires.default = 'line' is not possible; allowed: a table of columns",
        ),
        (
            with_(rows='{ default = { goodput_mib_s = "fast" } }'),
            "= 'fast' is not possible; allowed: a num",
        ),
        (
            with_(column=None, judge='"cap"', expected="{}"),
            "expected = {} is not possible; allowed: a number, a text",
        ),
    ],
)
def test_read_refuses_a_wrong_claim(tmp_path: Path, claim: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)) as caught:
        read(ledger(tmp_path, claim))
    assert "\n" not in str(caught.value)


def ruled(rule: str, **changed: str | None) -> dict[str, str]:
    """A claim that is judged by a rule."""
    return with_(column=None, rule=rule, **changed)


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (ruled("{ at_mots = 'a' }"), "at_mots is not a field; did you mean at_most?"),
        (ruled("{ predicted = 'a' }"), "give one of within, at_most, at_least, shown"),
        (ruled("{ within = 'a', at_most = 'a' }"), "give one of within, at_most, at_least, shown"),
        (ruled("{ within = 'a +' }"), "'a +' is not a formula. Allowed: columns"),
        (ruled("{ within = 'log(a)' }"), "is not a formula"),
        (ruled("{ within = 'defualt.a' }"), "defualt is not a condition of the claim"),
        (ruled("{ within = '{mean}' }"), "mean is not a figure"),
        (ruled("{ within = { mean = 'a' } }"), "rule must name the figures of expected"),
        (ruled("{ measured = 'a', all = ['a > 1'] }"), "this rule needs its reason: because"),
        (ruled("{ shown = 'a' }"), "this rule needs its reason: because"),
        (ruled("{ measured = 'a' }", because="'b'"), "measured needs comparisons: all or each"),
        (ruled("{ within = 'a', measured = 'a' }"), "measured needs comparisons: all or each"),
        (ruled("{ all = ['a > 1'] }", because="'b'"), "all and each need figures"),
        (ruled("{ within = 'a', needs = { 'a >' = 'more' } }"), "'a >' is not a formula"),
        (ruled("{ within = 'a', degree = 'right' }"), "allowed: true or false"),
        (with_(because="'{default.a:lots}'"), "{default.a:lots} has an unknown format"),
        (with_(because="'{deflaut.a}'"), "deflaut is not a condition of the claim"),
        (with_(because="'{a'"), "has a single brace"),
        (with_(judge="'cap'", column=None, because="'a'"), "leave out because"),
    ],
)
def test_read_refuses_a_wrong_rule_or_sentence(
    tmp_path: Path, claim: dict[str, str], said: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(said)) as caught:
        read(ledger(tmp_path, claim))
    message = str(caught.value)
    assert message.startswith("article1.toml, A1.1: ") and message.isprintable()


def test_check_columns_refuses_an_unknown_one(tmp_path: Path) -> None:
    """In a rule, in a sentence, and as the column of a claim."""
    wrong = ({"because": "'{default.speed}'"}, {"column": "'speed'"})
    claims = [with_(**changed) for changed in wrong] + [ruled("{ within = 'speed' }")]
    for claim in claims:
        with pytest.raises(BadInput, match=r"A1\.1: speed is not a column of Results"):
            check_columns(find("buffers"), read(ledger(tmp_path, claim)))


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("[article", "article1.toml: "),
        ("", "one [article] and a [[claim]] for each claim"),
        (HEAD + "[more]\n", "nothing else"),
        (
            HEAD.replace('lab = "buffers"', "lab = 1"),
            "article.lab = 1 is not possible; allowed: a text",
        ),
        (HEAD.replace("number = 1", ""), "it has no number"),
    ],
)
def test_read_refuses_a_wrong_ledger(tmp_path: Path, head: str, said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)) as caught:
        read(ledger(tmp_path, with_(), head=head))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5_000 + "]" * 5_000,
        "a = " + "{b = " * 900 + "1" + "}" * 900,
        "a = " + "[" * 20 + "]" * 20,
        "[" + ".".join("a" * 20) + "]",
        f"a = {'x' * 20_000}",
        "a = 1" + "0" * 5_000,
        "a = 1979-05-27",
        "claim = 3",
        "article = []",
        "\x1b[31m = 1",
        '"\\u001b[31m" = 1',
        "\udcff",
        "#" + " " * (1 << 20),
    ],
)
def test_read_refuses_a_hostile_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "article1.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput) as caught:
        read(path)
    assert path.name in str(caught.value) and str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_read_refuses_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    for path in (tmp_path, tmp_path / "pipe.toml", tmp_path / "zero.toml"):
        with pytest.raises(BadInput, match=f"{path.name} is not a ledger"):
            read(path)


def numbered(*ids: str) -> list[dict[str, str]]:
    return [with_(id=f'"{id_}"') for id_ in ids]


def test_read_allows_parts_of_a_claim(tmp_path: Path) -> None:
    ids = ("A1.1", "A1.2a", "A1.2b", "A1.3")
    found = read(ledger(tmp_path, *numbered(*ids)))
    assert tuple(claim.id for claim in found.claims) == ids


@pytest.mark.parametrize(
    ("ids", "allowed"),
    [
        (("A1.2",), "A1.1 or A1.1a"),
        (("A1.1", "A1.1"), "A1.2 or A1.2a"),
        (("A1.1", "A1.1a"), "A1.2 or A1.2a"),
        (("A1.1a", "A1.1c"), "A1.1b or A1.2 or A1.2a"),
        (("A1.1b",), "A1.1 or A1.1a"),
    ],
)
def test_read_refuses_claims_out_of_order(
    tmp_path: Path, ids: tuple[str, ...], allowed: str
) -> None:
    with pytest.raises(BadInput, match=f"numbered in order. Allowed here: {allowed}$"):
        read(ledger(tmp_path, *numbered(*ids)))


def test_read_counts_from_the_first_claim_of_a_part() -> None:
    """Two labs have the claims of article 6, one after the other."""
    parts = [read(find(lab).ledger or Path()) for lab in ("queues", "sharing")]
    ids = [claim.id for part in parts for claim in part.claims]
    numbers = list(dict.fromkeys(int(id_.partition(".")[2].rstrip("abc")) for id_ in ids))
    assert numbers == list(range(1, 32))
    assert [part.first for part in parts] == [1, 18]
    assert parts[1].claims[0].id == "A6.18"


def test_claim_without_some_of_its_figures() -> None:
    claim = LEDGER.claim("A1.8")
    rest = claim.without(["whole file"])
    assert rest.expected == {"end": 1.01}


def test_read_and_claim_refuse_what_is_missing() -> None:
    with pytest.raises(BadInput, match=r"A1.99 is not a claim of article 1"):
        LEDGER.claim("A1.99")
    with pytest.raises(BadInput, match="is missing"):
        read(EXPERIMENTS / "article99.toml")
