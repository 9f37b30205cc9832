"""Sysctls: read, set, read back, restored."""

from __future__ import annotations

from labs.errors import Missing, RunFailed
from labs.guest.testbed.contract import Testbed
from tests.contract.setting import NotApplicable, Setting, equal, refused

RMEM = "net.ipv4.tcp_rmem"
# A harmless sysctl of the whole kernel, so that a later host sees whether it was restored.
LASTING = "kernel.printk_ratelimit_burst"
# Also of the whole kernel; depending on the kernel a namespace cannot see it, or only read it.
CAP = "net.core.wmem_max"


def check_sysctl_has_single_spaces(testbed: Testbed) -> None:
    for host in testbed.hosts().values():
        value = host.sysctl(RMEM)
        assert all(part.isdigit() for part in value.split(" ")), repr(value)
        equal(
            host.sysctl("net/ipv4/conf/lo/forwarding"), host.sysctl("net.ipv4.conf.lo.forwarding")
        )


def check_set_sysctl_reads_the_value_back(testbed: Testbed) -> None:
    before = len(testbed.log)
    other = testbed.client.sysctl(RMEM)
    testbed.server.set_sysctl(RMEM, "4096\t50000   6000000")
    equal(testbed.server.sysctl(RMEM), "4096 50000 6000000")
    equal(testbed.client.sysctl(RMEM), other)
    equal(
        [(line.host, line.argv, line.exit_code) for line in testbed.log[before:]],
        [("server", ("sysctl", "-w", f"{RMEM}=4096 50000 6000000"), 0)],
    )


def check_set_sysctl_of_the_whole_kernel(setting: Setting) -> None:
    if not setting.whole_kernel:
        raise NotApplicable("these hosts are namespaces seen from inside")
    with setting.testbed() as testbed:
        value = testbed.server.sysctl(CAP)
        testbed.server.set_sysctl(CAP, value)
        equal(testbed.client.sysctl(CAP), value)


def check_sysctl_that_does_not_exist(testbed: Testbed) -> None:
    with refused(Missing, "net.ipv4.nonsuch", "server", "sysctl -a"):
        testbed.server.sysctl("net.ipv4.nonsuch")
    with refused(Missing, "net.ipv4.nonsuch", "client"):
        testbed.client.set_sysctl("net.ipv4.nonsuch", "1")
    for name in ("", ".", "..etc.passwd", "../../etc/passwd", "/etc/passwd", ".etc.passwd"):
        with refused(Missing):
            testbed.client.sysctl(name)


def check_set_sysctl_accepts_every_congestion_control(testbed: Testbed) -> None:
    control = "net.ipv4.tcp_congestion_control"
    for host in (testbed.server, testbed.client):
        for name in host.sysctl("net.ipv4.tcp_available_congestion_control").split():
            host.set_sysctl(control, name)
            equal(host.sysctl(control), name)


def check_set_sysctl_refused(testbed: Testbed) -> None:
    control = "net.ipv4.tcp_congestion_control"
    before, lines = testbed.client.sysctl(control), len(testbed.log)
    with refused(RunFailed, control, "nonsuch", "client"):
        testbed.client.set_sysctl(control, "nonsuch")
    equal(testbed.client.sysctl(control), before)
    equal(len(testbed.log), lines)


def check_set_sysctl_without_effect(testbed: Testbed) -> None:
    # An octal number is accepted, but read back in decimal.
    with refused(RunFailed, LASTING, "'011'", "'9'", "server"):
        testbed.server.set_sysctl(LASTING, "011")


def check_exit_restores_sysctls(setting: Setting) -> None:
    with setting.testbed() as testbed:
        before = testbed.client.sysctl(LASTING)
        # Both hosts may share a kernel, so the order of all changes matters.
        testbed.client.set_sysctl(LASTING, "21")
        testbed.server.set_sysctl(LASTING, "22")
        testbed.client.set_sysctl(LASTING, "23")
        testbed.server.set_sysctl(LASTING, "24")
    with setting.testbed() as testbed:
        equal(testbed.client.sysctl(LASTING), before)
        equal(testbed.server.sysctl(LASTING), before)


def check_exit_after_an_error_restores_sysctls(setting: Setting) -> None:
    for wrong in (ValueError, KeyboardInterrupt):
        try:
            with setting.testbed() as testbed:
                before = testbed.server.sysctl(LASTING)
                testbed.server.set_sysctl(LASTING, "31")
                raise wrong("on purpose")
        except wrong as error:
            equal(str(error), "on purpose")
        with setting.testbed() as testbed:
            equal(testbed.server.sysctl(LASTING), before)
