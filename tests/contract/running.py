"""Commands that are run to their end."""

from __future__ import annotations

import signal
from types import FrameType

from labs.errors import Missing, RunFailed
from labs.guest.testbed.contract import Testbed
from tests.contract.setting import Setting, await_text, equal, lives, path, refused

ODD_WORDS = (
    "",
    " ",
    "two words",
    "it's",
    'say "no"',
    "$HOME",
    "$(id)",
    "`id`",
    "*",
    "a\nb",
    "a\\b",
    "#",
    ";",
    "&",
    "-n",
    "~",
    "grüße",
    "\udcff",
    "%s",
    "!",
)


def check_run_returns_the_exit_code(testbed: Testbed) -> None:
    for code in (0, 1, 7, 126, 127, 255):
        done = testbed.server.run(("sh", "-c", f"exit {code}"), check=False)
        equal((done.exit_code, done.argv), (code, ("sh", "-c", f"exit {code}")))


def check_run_returns_a_signal_as_a_negative_exit_code(testbed: Testbed) -> None:
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        done = testbed.client.run(("sh", "-c", f"kill -{number} $$"), check=False)
        equal(done.exit_code, -number)


def check_run_that_fails_reports_the_last_line(testbed: Testbed) -> None:
    with refused(RunFailed, "`sh -c", "on server", "exit code 3", "no such luck", "to begin with"):
        testbed.server.run(("sh", "-c", "echo to begin with >&2; echo no such luck >&2; exit 3"))
    with refused(RunFailed, "on client", "signal 9"):
        testbed.client.run(("sh", "-c", "kill -9 $$"))


def check_run_passes_words_unchanged(testbed: Testbed) -> None:
    done = testbed.server.run(("printf", "%s\\0", *ODD_WORDS))
    equal(
        done.stdout, b"".join(word.encode(errors="surrogateescape") + b"\0" for word in ODD_WORDS)
    )


def check_run_returns_output_byte_for_byte(testbed: Testbed) -> None:
    every = bytes(range(256)) * 4096
    equal(testbed.client.run(("cat",), stdin=every).stdout, every)
    done = testbed.client.run(
        ("sh", "-c", "printf out; printf err >&2; cat; printf more >&2"), stdin=b"\r\n\0"
    )
    equal((done.stdout, done.stderr), (b"out\r\n\0", b"errmore"))
    assert testbed.server.run(("sh", "-c", "cat >&2"), stdin=every).stderr == every


def check_run_has_empty_input_by_default(testbed: Testbed) -> None:
    equal(testbed.server.run(("cat",)).stdout, b"")
    # Input that a program does not read has no effect on it.
    equal(testbed.server.run(("true",), stdin=b"x" * (1 << 20)).exit_code, 0)


def check_run_of_a_missing_program_names_its_package(testbed: Testbed) -> None:
    with refused(Missing, "no-such-program", "client", "apt-get install no-such-program"):
        testbed.client.run(("no-such-program", "-x"))
    with refused(Missing, "/etc/passwd", "server"):
        testbed.server.run(("/etc/passwd",))


def check_run_past_its_timeout_kills_the_group(testbed: Testbed) -> None:
    server, pids = testbed.server, path(testbed.server, "pids")
    command = f'trap "" TERM; sh -c "sleep 1000" & echo $! $$ >{pids}; sleep 1000; true'
    with refused(RunFailed, "on server", "within 2 s"):
        server.run(("sh", "-c", command), timeout_s=2)
    child, leader = await_text(server, pids).split()
    assert not lives(server, leader), "the command still runs"
    assert not lives(server, child), "a child of the command still runs"


def check_run_ends_what_a_command_leaves_running(testbed: Testbed) -> None:
    done = testbed.client.run(("sh", "-c", "sleep 1000 & echo $!"))
    assert not lives(testbed.client, done.stdout), "its child still runs"


def check_log_contains_every_command(testbed: Testbed) -> None:
    before = len(testbed.log)
    testbed.server.run(("true",))
    testbed.client.run(("false",), check=False)
    testbed.client.run(("sh", "-c", "exit 4"), log=False, check=False)
    with refused(RunFailed):
        testbed.server.run(("sh", "-c", "exit 5"))
    equal(
        [(line.host, line.argv, line.exit_code) for line in testbed.log[before:]],
        [
            ("server", ("true",), 0),
            ("client", ("false",), 1),
            ("server", ("sh", "-c", "exit 5"), 5),
        ],
    )


def check_log_has_the_time_of_the_host(testbed: Testbed) -> None:
    begin_ns = testbed.server.clock_ns()
    testbed.server.run(("true",))
    end_ns = testbed.server.clock_ns()
    assert 10**18 < begin_ns <= testbed.log[-1].at_ns <= end_ns


def check_batch_runs_in_order_and_logs_each_line(testbed: Testbed) -> None:
    before = len(testbed.log)
    link = ("ip", "link", "set", "dev", "lo", "mtu")
    lines = [(*link, "1400"), (*link, "1300"), ("tc", "qdisc", "show"), (*link, "65536")]
    testbed.client.batch(lines)
    equal(
        [(line.host, line.argv, line.exit_code) for line in testbed.log[before:]],
        [("client", line, 0) for line in lines],
    )
    assert "mtu 65536" in testbed.client.run(("ip", "link", "show", "lo")).text


def check_batch_that_fails_names_the_line(testbed: Testbed) -> None:
    before = len(testbed.log)
    set_up = ("ip", "link", "set", "dev")
    lines = [
        (*set_up, "lo", "mtu", "1400"),
        (*set_up, "nonsuch", "up"),
        (*set_up, "lo", "mtu", "1200"),
    ]
    with refused(RunFailed, "`ip link set dev nonsuch up`", "server", "nonsuch"):
        testbed.server.batch(lines)
    equal(
        [(line.argv, line.exit_code) for line in testbed.log[before:]],
        [(lines[0], 0), (lines[1], 1)],
    )
    assert "mtu 1400" in testbed.server.run(("ip", "link", "show", "lo")).text
    testbed.server.run((*set_up, "lo", "mtu", "65536"))
    with refused(RunFailed, "`tc qdisc del dev lo root`", "server"):
        testbed.server.batch([("tc", "qdisc", "del", "dev", "lo", "root")])


def check_run_interrupted_ends_the_command(setting: Setting) -> None:
    """^C in the middle of a command: it is gone, and the testbed is taken away as ever."""
    pid_file = "/tmp/contract-interrupted"

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with setting.testbed() as testbed:
            signal.alarm(2)
            testbed.server.run(("sh", "-c", f"echo $$ >{pid_file}; exec sleep 1000"))
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("it was not interrupted")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    with setting.testbed() as testbed:
        pid = testbed.server.read(pid_file)
        testbed.server.run(("rm", pid_file))
        assert not lives(testbed.server, pid), "the command still runs"
