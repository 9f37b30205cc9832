"""Whatever stands in a file, a parser answers with rows or with the error that it documents."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.errors import Damaged
from labs.guest import tc
from labs.read.parse import http_clients, http_loads, inet_diag, proc, socket_samples, ss
from labs.read.parse.inet_diag import tcp_info
from labs.read.parse.ss import FORMS, GROUPS

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
READERS: dict[str, Callable[[str], object]] = {
    "ss": ss.rows,
    "blocks": ss.blocks,
    "nstat": proc.counters,
    "tc": tc.queues,
    "wget": http_clients.wget,
    "httping": http_clients.httping,
    "ab": http_clients.ab,
    "socket samples": socket_samples.samples,
    "wrk": http_loads.wrk,
    "vegeta": http_loads.vegeta,
    "softirqs": proc.softirqs,
    "interrupts": proc.interrupts,
    "ab -e": partial(http_clients.ab_percentiles, requests=20),
}
SAMPLES = {
    "ss": "ss-all-states.txt",
    "blocks": "ss-6.1-loss-bbr.txt",
    "nstat": "nstat-after.txt",
    "tc": "tc-after.txt",
    "wget": "wget-stopped.txt",
    "httping": "httping-split.txt",
    "ab": "ab-keepalive.txt",
    "socket samples": "socket-samples-6.1.csv",
    "wrk": "wrk-1.txt",
    "vegeta": "vegeta-open.csv",
    "softirqs": "softirqs.txt",
    "interrupts": "interrupts.txt",
    "ab -e": "ab-keepalive.csv",
}
NAMES = sorted({*FORMS, *GROUPS, "timer", "users", "uid"})
HEAD = "ESTAB 0 0 10.0.0.1:80 10.0.0.2:4000 "


def read(reader: Callable[[str], object], text: str) -> None:
    try:
        reader(text)
    except Damaged as damaged:
        assert "\n" not in str(damaged)


@pytest.mark.parametrize("name", READERS)
@given(text=st.text())
def test_readers_of_any_text(name: str, text: str) -> None:
    read(READERS[name], text)


@pytest.mark.parametrize("name", READERS)
@given(cut=st.integers(0, 4000), put=st.text(max_size=20), drop=st.integers(0, 40))
@settings(max_examples=60)
def test_readers_of_changed_output(name: str, cut: int, put: str, drop: int) -> None:
    text = (FIXTURES / SAMPLES[name]).read_text()
    cut %= len(text)
    read(READERS[name], text[:cut] + put + text[cut + drop :])


@given(
    tokens=st.lists(
        st.one_of(
            st.text(st.characters(exclude_categories=("Z", "C"))),
            st.builds("{}:{}".format, st.sampled_from(NAMES), st.text(max_size=30)),
            st.builds("{}:({})".format, st.sampled_from(NAMES), st.text(max_size=30)),
        ),
        max_size=12,
    )
)
def test_rows_of_any_token(tokens: list[str]) -> None:
    line = HEAD + " ".join(" ".join(token.split()) for token in tokens)
    read(ss.rows, line.replace("\n", " "))


@given(data=st.binary(max_size=600))
def test_samples_and_tcp_info_of_any_bytes(data: bytes) -> None:
    assert tcp_info(data).beyond_bytes >= 0
    said = refusal(inet_diag.samples, data)
    assert "\n" not in said
    assert refusal(inet_diag.readable_samples, data) == said


def refusal(reader: Callable[[bytes], object], data: bytes) -> str:
    """Why a reader refuses these bytes; empty if it reads them."""
    try:
        reader(data)
    except Damaged as damaged:
        return str(damaged)
    return ""


@given(
    attributes=st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=300)), max_size=8),
    head=st.binary(min_size=72, max_size=72),
)
def test_sample_of_any_attributes(attributes: list[tuple[int, bytes]], head: bytes) -> None:
    body = b"".join(
        struct.pack("<HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)
        for kind, payload in attributes
    )
    sample = inet_diag.sample(1, head + body)
    assert len(sample.unknown_attributes) <= len(attributes)
    assert sample.at_ns == 1
