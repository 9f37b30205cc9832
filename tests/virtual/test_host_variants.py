"""Equal inputs leave equal bytes on changed hosts: the variants that matter most, with one lab.

`make host-variants` tries all of them, with all labs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.record.disk import owned_folder
from tests.host_variants import VARIANTS, Hosts, chosen, order
from tests.variants import LABS, Variant

OF_ROOT = chosen(
    (
        "ld.so.preload: a library",
        "localtime absent",
        "openssl.cnf absent",
        "locales absent",
        "standard library without __pycache__",
        "another processor",
        "an unlisted user with a home",
        "another libcrypto",
    )
)
OF_A_USER = Variant(
    "what any user can change",
    env={
        **{
            name: text
            for one in chosen(("TZ", "PYTHON*", "LANG and LC_ALL"))
            for name, text in one.env.items()
        },
        "HOME": "{work}/home",
        "XDG_CACHE_HOME": None,
        "LABS_MEMORY_DIR": "{work}",
    },
    folder="{work}/a folder",
    runs="runs of mine/ü",
    umask=0o077,
)
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    # Not below pytest's own folder, which other users cannot enter.
    with owned_folder("labs-hosts-", Path("/var/tmp")) as base:
        yield Hosts(base, labs=("nagle",))


def test_order_knows_all_words_in_braces(hosts: Hosts) -> None:
    for variant in VARIANTS:
        text = str(order(variant, {**hosts.known, "work": "/w"}, LABS))
        assert not re.findall(r"\{[a-z_]+\}", text), variant.name


def test_hosts_outcome_passes_what_any_user_can_change(hosts: Hosts) -> None:
    outcome = hosts.outcome(OF_A_USER)
    assert (outcome.verdict, outcome.about) == ("same", "")


@root_only
@pytest.mark.program("unshare")
@pytest.mark.parametrize("variant", OF_ROOT, ids=lambda variant: variant.name)
def test_hosts_outcome_passes(hosts: Hosts, variant: Variant) -> None:
    outcome = hosts.outcome(variant)
    if outcome.verdict == "not possible here":
        pytest.skip(outcome.about)
    assert outcome.passed, outcome
    assert outcome.verdict == variant.expected
