"""The columns of samples: the same as those of a table made from one decoded sample per row."""

from __future__ import annotations

import struct
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from labs.errors import Damaged
from labs.read.parse import inet_diag
from labs.read.runs.sample_table import sample_columns

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
RECORDED = sorted(FIXTURES.glob("samples-*.bin"))
ATTRIBUTE = st.one_of(
    st.tuples(st.sampled_from((2, 7)), st.binary(max_size=300)),
    st.tuples(st.integers(0, 23), st.binary(max_size=24)),
    st.tuples(st.integers(0, 65535), st.binary(max_size=8)),
)


def row(sample: inet_diag.Sample) -> dict[str, Any]:
    """One decoded sample as a row, the fields of its parts by their own names."""
    found = {name: getattr(sample, name) for name in inet_diag.PLAIN}
    for part in (sample.memory or sample.short_memory, sample.tcp, sample.algorithm):
        found |= {} if part is None else asdict(part)
    unknown = " ".join(map(str, sample.unknown_attributes))
    return found | sample.extra | {"unknown_attributes": unknown}


def check(data: bytes) -> pandas.DataFrame:
    found = pandas.DataFrame(sample_columns(data))
    expected = pandas.DataFrame([row(sample) for sample in inet_diag.samples(data)])
    assert_frame_equal(found, expected, check_exact=True)
    return found


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_sample_columns_of_recorded_samples(path: Path) -> None:
    data = path.read_bytes()
    assert len(check(data)) == len(inet_diag.samples(data)) > 0


def test_sample_columns_names() -> None:
    last = check((FIXTURES / "samples-6.1-loss-bbr.bin").read_bytes()).iloc[-1]
    assert last["snd_mss_bytes"] == 1448
    assert {"bbr_bw_bytes_s", "sndbuf_bytes"} <= set(last.index)
    assert last["rcv_wnd_bytes"] is None


def test_sample_columns_of_nothing() -> None:
    """They have the names that every sample has, so that a run without a connection can be read."""
    columns = sample_columns(b"")
    assert {"at_ns", "peer_port", "snd_cwnd_segments", "rtt_us"} <= set(columns)
    assert not any(map(len, columns.values()))


def test_sample_columns_refuses_cut_records() -> None:
    data = RECORDED[0].read_bytes()
    with pytest.raises(Damaged):
        sample_columns(data[:-1])
    with pytest.raises(Damaged):
        sample_columns(struct.pack("<QI", 1, 71) + bytes(71))


@given(
    st.lists(
        st.tuples(
            st.integers(0, inet_diag.LATEST_NS - 1),
            st.binary(min_size=72, max_size=72),
            st.lists(ATTRIBUTE, max_size=5),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_sample_columns_of_any_attributes(
    records: list[tuple[int, bytes, list[tuple[int, bytes]]]],
) -> None:
    data = b""
    for at_ns, head, attributes in records:
        message = head + b"".join(
            struct.pack("<HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)
            for kind, payload in attributes
        )
        data += struct.pack("<QI", at_ns, len(message)) + message
    check(data)
