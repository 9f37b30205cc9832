"""Opening what was read from a machine, and the reasons for what was not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.errors import BadInput, Damaged
from labs.read.audit.differences import differences
from labs.read.audit.machine import audit
from labs.read.audit.raw import SCHEMA, Unknown, number, open_raw
from tests.recorded_audits import GUEST, ROOT, USER, collected, recorded, with_files, with_output

RELEASE = "/proc/sys/kernel/osrelease"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below),
    max_leaves=8,
)


def test_text_says_why_a_file_is_unknown() -> None:
    raw = recorded(USER)
    assert raw.text("/proc/sys/kernel/numa_balancing") == "0"
    with pytest.raises(Unknown, match="this machine has no /sys/hypervisor/type"):
        raw.text("/sys/hypervisor/type")
    with pytest.raises(Unknown, match="only root can read /proc/net/ip_tables_names"):
        raw.text("/proc/net/ip_tables_names")


def test_number_refuses_other_text() -> None:
    assert number("-7") == -7
    with pytest.raises(Unknown, match="'fast' is no number"):
        number("fast")


def test_common_names_the_cpus_that_differ() -> None:
    pattern = "/cpu/cpu[0-9]*/governor"
    same = with_files(recorded(USER), {f"/cpu/cpu{n}/governor": "x" for n in range(12)})
    assert same.common(pattern) == "x"
    differ = with_files(recorded(USER), {"/cpu/cpu10/governor": "b", "/cpu/cpu2/governor": "a"})
    assert differ.common(pattern) == "cpu2: a; cpu10: b"


def test_said_gives_the_reason_of_the_tool() -> None:
    raw = recorded(USER)
    with pytest.raises(Unknown, match="netlink error: Operation not supported"):
        raw.output("ethtool", "-a", "eth0")
    with pytest.raises(Unknown, match="ethtool is not installed"):
        recorded_without_ethtool().output("ethtool", "-i", "eth0")
    with pytest.raises(Unknown, match="was not started"):
        raw.output("ethtool", "-i", "eth7")


def recorded_without_ethtool() -> Any:
    collection = collected(USER)
    for command in collection["commands"]:
        if command["argv"][0] == "ethtool":
            command |= {"exit": 127, "out": "", "err": "not installed"}
    return open_raw(collection, "it")


def test_option_of_a_kernel_without_its_build_options() -> None:
    assert recorded(USER).option("HZ") == "250"
    assert recorded(USER).option("NO_HZ_FULL") == "n"
    assert recorded(USER).option("DEFAULT_TCP_CONG") == "bbr"
    with pytest.raises(Unknown, match=r"neither /proc/config\.gz nor /boot"):
        recorded(GUEST).option("HZ")


@pytest.mark.parametrize(
    ("release", "series"), [("6.1.0-49-cloud-amd64", (6, 1)), ("7.2.13", (7, 2)), ("5.10", (5, 10))]
)
def test_series_of_a_release(release: str, series: tuple[int, int]) -> None:
    assert with_files(recorded(USER), {RELEASE: f"{release}\n"}).series == series
    with pytest.raises(Unknown, match="does not begin with two numbers"):
        _ = with_files(recorded(USER), {RELEASE: "next\n"}).series


def test_open_raw_refuses_another_schema_and_another_object() -> None:
    with pytest.raises(BadInput, match=f"Allowed: {SCHEMA}"):
        open_raw({**collected(USER), "schema": SCHEMA + 1}, "it")
    for wrong in ("text", None, 3):
        with pytest.raises(Damaged, match="it is not an object"):
            open_raw(wrong, "it")


@given(name=st.sampled_from(sorted(collected(ROOT))), value=JSON)
def test_open_raw_of_anything(name: str, value: object) -> None:
    try:
        raw = open_raw({**collected(ROOT), name: json.loads(json.dumps(value))}, "it")
    except (BadInput, Damaged) as error:
        assert "it" in str(error)
    else:
        assert all(item.name for item in audit(raw))


@given(data=st.data())
def test_audit_of_other_texts(data: st.DataObject) -> None:
    """Files and outputs with any content: items are unknown, and nothing is raised."""
    raw = recorded(ROOT)
    texts = st.sampled_from(["", "0\n", "-1", "x", "1 2\n3:\n", "a:b", "qdisc \n", "rules \n"])
    text = texts | st.text(max_size=30)
    files = {path: data.draw(text) for path in data.draw(st.sets(st.sampled_from([*raw.files])))}
    output = data.draw(st.sampled_from([*raw.outputs]))
    changed = with_output(with_files(raw, files), output, data.draw(text))
    assert len(audit(changed)) >= 50
    differences(raw, changed)


@pytest.mark.parametrize(
    ("name", "value"), [("devices", "eth0"), ("cpus", "2"), ("root", None), ("page_bytes", 1.5)]
)
def test_open_raw_refuses_facts_of_another_type(name: str, value: object) -> None:
    collection = collected(USER)
    with pytest.raises(Damaged, match=name):
        open_raw({**collection, "facts": {**collection["facts"], name: value}}, "it")
