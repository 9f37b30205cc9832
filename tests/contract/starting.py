"""Programs that are started, awaited, signalled and stopped."""

from __future__ import annotations

import signal
from pathlib import Path

from labs.errors import Missing, RunFailed
from labs.guest.testbed.contract import Testbed
from tests.contract.running import ODD_WORDS
from tests.contract.setting import await_text, equal, lives, path, refused

PROGRAM = Path(__file__).with_name("program.py")
FOREVER = ("sleep", "1000")


def check_start_does_not_wait(testbed: Testbed) -> None:
    process = testbed.server.start(FOREVER)
    equal(process.argv, FOREVER)
    equal(process.wait(0), None)
    equal(process.wait(0.2), None)
    process.signal(signal.SIGKILL)
    equal(process.wait(), -signal.SIGKILL)
    equal(process.stop(), -signal.SIGKILL)


def check_wait_returns_the_exit_code_repeatedly(testbed: Testbed) -> None:
    process = testbed.client.start(("sh", "-c", "exit 9"))
    equal(
        [process.wait(), process.wait(0), process.wait(1), process.stop(), process.wait(0)], [9] * 5
    )


def check_start_writes_output_to_files_of_the_host(testbed: Testbed) -> None:
    client = testbed.client
    both, out, err = (path(client, name) for name in ("both", "out", "err"))
    client.write(both, b"what was there before goes, all of it")
    said = ("sh", "-c", "echo to out; echo to err >&2")
    client.start(said, stdout=both).wait()
    client.start(said, stdout=out, stderr=err).wait()
    equal(client.start(said).wait(), 0)
    equal(
        [client.read(name) for name in (both, out, err)],
        [b"to out\nto err\n", b"to out\n", b"to err\n"],
    )


def check_start_gives_empty_input(testbed: Testbed) -> None:
    out = path(testbed.server, "read")
    equal(testbed.server.start(("cat",), stdout=out).wait(), 0)
    equal(testbed.server.read(out), b"")


def check_start_refuses_what_cannot_be_executed(testbed: Testbed) -> None:
    before = len(testbed.log)
    with refused(Missing, "no-such-program", "server", "apt-get install no-such-program"):
        testbed.server.start(("no-such-program",))
    with refused(RunFailed, "/nonsuch/out", "client"):
        testbed.client.start(("true",), stdout="/nonsuch/out")
    with refused(RunFailed, "/nonsuch/err", "client"):
        testbed.client.start(("true",), stderr="/nonsuch/err")
    equal(len(testbed.log), before)


def check_start_passes_words_unchanged(testbed: Testbed) -> None:
    out = path(testbed.client, "words")
    equal(testbed.client.start(("printf", "%s\\0", *ODD_WORDS), stdout=out).wait(), 0)
    equal(
        testbed.client.read(out),
        b"".join(word.encode(errors="surrogateescape") + b"\0" for word in ODD_WORDS),
    )


def check_signal_reaches_only_the_program(testbed: Testbed) -> None:
    server, out = testbed.server, path(testbed.server, "pid")
    command = 'trap "exit 5" USR1; sleep 1000 & echo $!; wait'
    process = server.start(("sh", "-c", command), stdout=out)
    child = await_text(server, out)
    process.signal(signal.SIGUSR1)
    equal(process.wait(), 5)
    process.signal(signal.SIGUSR1)
    assert lives(server, child), "its child was signalled too"
    equal(process.stop(), 5)
    assert not lives(server, child), "its child was not stopped"


def check_stop_ends_the_whole_group(testbed: Testbed) -> None:
    client, out = testbed.client, path(testbed.client, "pids")
    process = client.start(("sh", "-c", "sleep 1000 & echo $! $$; wait"), stdout=out)
    child, leader = await_text(client, out).split()
    equal(process.stop(), -signal.SIGTERM)
    assert not lives(client, leader) and not lives(client, child)
    equal(process.stop(), -signal.SIGTERM)


def check_stop_kills_what_ignores_sigterm(testbed: Testbed) -> None:
    client, out = testbed.client, path(testbed.client, "pids")
    command = 'trap "" TERM; sh -c "echo \\$\\$ $$; sleep 1000; true" & wait; sleep 1000; true'
    process = client.start(("sh", "-c", command), stdout=out)
    child, leader = await_text(client, out).split()
    equal(process.stop(0.2), -signal.SIGKILL)
    assert not lives(client, leader) and not lives(client, child)


def check_stop_gives_the_group_its_grace(testbed: Testbed) -> None:
    """A program ends at once, but its child takes a moment to write its last line."""
    server = testbed.server
    out, last = path(server, "out"), path(server, "last")
    child = f'trap "sleep 0.3; echo words >{last}; exit" TERM; echo ready; sleep 1000 & wait'
    process = server.start(("sh", "-c", f"sh -c '{child}' & exec sleep 1000"), stdout=out)
    await_text(server, out)
    equal(process.stop(20), -signal.SIGTERM)
    equal(server.read(last), b"words\n")


def check_log_contains_started_programs(testbed: Testbed) -> None:
    before = len(testbed.log)
    begin_ns = testbed.client.clock_ns()
    testbed.client.start(("true",)).wait()
    testbed.client.program(PROGRAM, ("exit", "0")).wait()
    end_ns = testbed.client.clock_ns()
    lines = testbed.log[before:]
    equal(
        [(line.host, line.argv, line.exit_code) for line in lines],
        [("client", ("true",), None), ("client", ("program.py", "exit", "0"), None)],
    )
    assert begin_ns <= lines[0].at_ns <= lines[1].at_ns <= end_ns


def check_program_receives_its_arguments(testbed: Testbed) -> None:
    for host in testbed.hosts().values():
        out = path(host, "out")
        process = host.program(PROGRAM, ("print", *ODD_WORDS), stdout=out)
        equal(process.wait(), 0)
        equal(host.read(out), ascii(list(ODD_WORDS)).encode() + b"\non stderr\n")


def check_program_returns_its_exit_code(testbed: Testbed) -> None:
    server, out = testbed.server, path(testbed.server, "out")
    equal(server.program(PROGRAM, ("exit", "6")).wait(), 6)
    equal(server.program(PROGRAM, ("sys.exit", "7")).wait(), 7)
    equal(server.program(PROGRAM, ("raise", "bad luck"), stdout=out).wait(), 1)
    equal(server.read(out).splitlines()[-1], b"ValueError: bad luck")
    equal(server.program(PROGRAM, ("kill", "9")).wait(), -9)


def check_program_receives_signals(testbed: Testbed) -> None:
    client, out = testbed.client, path(testbed.client, "out")
    process = client.program(PROGRAM, ("count",), stdout=out)
    await_text(client, out, b"ready\n")
    for count in (b"1\n", b"2\n"):
        process.signal(signal.SIGUSR1)
        await_text(client, out, count)
    equal(process.stop(), 3)
    equal(client.read(out), b"ready\n1\n2\n")


def check_program_runs_more_than_once(testbed: Testbed) -> None:
    server = testbed.server
    outs = [path(server, name) for name in ("one", "other")]
    both = [server.program(PROGRAM, ("count",), stdout=out) for out in outs]
    for out in outs:
        await_text(server, out, b"ready\n")
    equal([process.stop() for process in both], [3, 3])


def check_program_that_does_not_exist(testbed: Testbed) -> None:
    with refused(RunFailed, "nonsuch.py", "client"):
        testbed.client.program(Path("/nonsuch.py"), ())
    with refused(RunFailed, "/nonsuch/out", "client"):
        testbed.client.program(PROGRAM, (), stdout="/nonsuch/out")
