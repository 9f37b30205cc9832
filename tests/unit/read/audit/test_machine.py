"""All items of recorded machines: how many, in which order, and what is known about each."""

from __future__ import annotations

import pytest

from labs.read.audit import sysctls
from labs.read.audit.items import GROUPS
from labs.read.audit.machine import audit, table
from labs.read.audit.rules import DEVICE_RULES, PARSERS, RULES
from labs.read.audit.sysctls import defaults
from tests.recorded_audits import GUEST, ROOT, USER, items, recorded


@pytest.mark.parametrize("name", [USER, ROOT, GUEST])
def test_audit_has_at_least_fifty_items(name: str) -> None:
    found = audit(recorded(name))
    assert len(found) >= 50
    assert len({one.key for one in found}) == len(found)
    for one in found:
        assert (one.value is None) == bool(one.unknown), one.key
        assert one.deviates is None or one.wanted, one.key


@pytest.mark.parametrize("name", [USER, ROOT, GUEST])
def test_audit_is_ordered_by_group_then_what_deviates(name: str) -> None:
    found = audit(recorded(name))
    places = [(GROUPS.index(one.group), one.rank) for one in found]
    assert places == sorted(places)


def test_table_says_how_each_item_is_read_and_what_is_known_about_it() -> None:
    by_rule = {item.name for item, reading in table().items() if not reading.read}
    assert by_rule == {*RULES, *DEVICE_RULES}
    for item, reading in table().items():
        assert item.group in GROUPS and reading.parse in PARSERS, item.name
        assert item.matters, item.name
        assert set(item.matters) <= {"latency", "throughput", "repeatability"}, item.name
        assert all((item.title, item.says, item.source, item.change)), item.name
        assert not reading.unwanted or reading.wanted, item.name
    titles = [item.title for item in table()]
    assert len(set(titles)) == len(titles)


def test_about_describes_every_sysctl_that_was_recorded() -> None:
    known = {name for values in defaults().values() for name in values}
    known |= {name for which in (USER, ROOT, GUEST) for name in recorded(which).sysctls()}
    assert known - sysctls.REPORTS - set(sysctls.about()) == set()
    for name, said in sysctls.about().items():
        assert set(said["matters"]) <= {"latency", "throughput", "repeatability"}, name
        assert said["says"].endswith("."), name


def test_audit_marks_what_only_root_can_read() -> None:
    as_user, as_root = items(recorded(USER)), items(recorded(ROOT))
    hidden = [key for key, one in as_user.items() if "only root" in one.unknown]
    assert hidden == ["netfilter.tables", "netfilter.chains", "netfilter.rules"]
    assert all(as_user[key].needs_root for key in hidden)
    assert all(as_root[key].value is not None for key in hidden)


def test_item_of_a_device_names_it_in_its_command() -> None:
    found = items(recorded(USER))["nic.rx_usecs eth0"]
    assert (found.value, found.unit, found.deviates) == (0, "µs", False)
    assert found.change == "ethtool -C eth0 rx-usecs 0"
    assert found.source.startswith("article 2")
