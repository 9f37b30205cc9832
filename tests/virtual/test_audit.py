"""Audits inside virtual kernels: they have the defaults that `labs doctor audit` compares with."""

from __future__ import annotations

import pytest

from labs.drive.kernel.versions import SERIES
from labs.read.audit import sysctls
from labs.read.audit.machine import audit
from labs.read.audit.raw import open_raw
from tests.conftest import DEFAULT_KERNEL
from tests.virtual.guest_audit import defaults, guest_audit

EACH = [
    name if name == DEFAULT_KERNEL else pytest.param(name, marks=pytest.mark.kernel(name))
    for name in SERIES
]


@pytest.mark.parametrize("version", EACH)
def test_defaults_are_those_of_a_booted_kernel(version: str) -> None:
    found = guest_audit(version)
    major, minor = map(int, version.split("."))
    assert defaults(found) == sysctls.defaults()[major, minor]
    raw = open_raw(found, version)
    differ = [one.key for one in audit(raw) if one.deviates and one.key.startswith("net.")]
    assert differ == []
    assert raw.series == (major, minor)


@pytest.mark.parametrize("version", EACH)
def test_defaults_of_a_namespace_are_those_of_the_boot(version: str) -> None:
    """Two ways to the same figure: the boot, and a new namespace in the booted kernel."""
    raw = open_raw(guest_audit(version), version)
    assert raw.fresh_error == ""
    own = set(raw.fresh) - raw.fresh_read_only - sysctls.OF_THE_MACHINE - sysctls.REPORTS
    assert len(own) > 60
    assert {name: raw.fresh[name] for name in own} == {name: raw.sysctls()[name] for name in own}
