"""The page of an audit."""

from __future__ import annotations

import dataclasses

from labs.publish.audit_page import entries, page
from labs.read.audit.items import Item, in_order
from labs.read.audit.machine import audit
from tests.recorded_audits import ROOT, USER, recorded


def of_two_machines() -> list[Item]:
    machines = [("server", recorded(ROOT)), ("client", recorded(USER))]
    return in_order(
        dataclasses.replace(item, machine=name) for name, raw in machines for item in audit(raw)
    )


def test_page_shows_every_item_and_loads_nothing() -> None:
    items = audit(recorded(USER))
    html = page(items)
    assert html.count('class="head"') == len(items)
    assert html.count('class="item deviates"') == sum(item.deviates is True for item in items)
    assert "http://" not in html and "https://" not in html and "<script" not in html
    assert "<code>ethtool -C eth0 rx-usecs 0</code>" in html
    assert page(items) == html


def test_page_escapes_what_a_machine_says() -> None:
    (item,) = [item for item in audit(recorded(USER)) if item.name == "cpu.model"]
    html = page([dataclasses.replace(item, value="<b>\x1b[31m&")])
    assert "<b>\x1b" not in html and r"&lt;b&gt;\x1b[31m&amp;" in html


def test_entries_of_equal_machines_are_shown_once() -> None:
    shown = entries(of_two_machines())
    (model,) = [entry for entry in shown if entry.item.name == "cpu.model"]
    assert model.machines == ("server", "client")
    rules = [entry for entry in shown if entry.item.name == "netfilter.rules"]
    assert [rule.machines for rule in rules] == [("server",), ("client",)]
    places = [place for place, entry in enumerate(shown) if entry.item.name == "netfilter.rules"]
    assert places[1] == places[0] + 1


def test_page_names_the_machines_of_what_differs() -> None:
    html = page(of_two_machines())
    assert '<span class="machine">server</span>' in html
    assert '<span class="machine">server, client</span>' not in html
