"""The ssh testbed without a machine: its commands, the channel, a far end on a pipe."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest

from labs.drive.record.removal import Made
from labs.drive.testbed import far_end
from labs.drive.testbed.connection import BOOTSTRAP, Login, modules
from labs.drive.testbed.far_end import Channel
from labs.drive.testbed.vagrant import Machine, Machines, is_shaped, unshaping
from labs.errors import BadInput
from labs.guest.testbed.link import Link

CONTROL = Path("/tmp/labs-ssh-x/control")


def options(argv: tuple[str, ...]) -> dict[str, str]:
    return dict(value.split("=", 1) for word, value in pairwise(argv) if word == "-o")


def test_login_lets_only_the_first_session_connect() -> None:
    login = Login("vagrant@server", ("-F", "config file"))
    first, other = (login.argv(CONTROL, "serve", first=value) for value in (True, False))
    assert options(first)["ControlMaster"] == "yes" and "ProxyCommand" not in options(first)
    assert options(other)["ControlMaster"] == "no" and options(other)["ProxyCommand"] == "false"
    for argv in (first, other):
        assert options(argv)["ControlPath"] == str(CONTROL)
        assert options(argv)["BatchMode"] == "yes" and options(argv)["ControlPersist"] == "no"
        assert argv[-5:-1] == ("-F", "config file", "-T", "vagrant@server")


def test_login_starts_the_far_end_with_one_line_for_any_shell() -> None:
    for sudo in (False, True):
        command = Login("host", sudo=sudo, python="python3.11").far_end("keep")
        assert "\n" not in command and "!" not in command
        words = shlex.split(command)
        assert words[:3] == (["sudo", "-n", "--"] if sudo else ["python3.11", "-I", "-S"])
        assert words[-3:] == [BOOTSTRAP, str(len(modules())), "keep"]


def test_modules_sent_are_complete() -> None:
    names = [name for name, _ in json.loads(modules())]
    assert names[-1] == "labs.drive.testbed.far_end" and len(names) == len(set(names))


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    (one, two), (three, four) = os.pipe(), os.pipe()
    ends = Channel(one, four), Channel(three, two)
    yield ends
    for end in ends:
        end.close()


def test_channel_receives_messages_one_by_one(pair: tuple[Channel, Channel]) -> None:
    near, far = pair
    near.send({"a": 1}, b"\n{}\0")
    near.send({"b": "gr\udcff"})
    assert far.receive() == ({"a": 1, "bytes": 4}, b"\n{}\0")
    assert far.receive(5) == ({"b": "gr\udcff"}, b"")
    assert far.receive(0) is None


def test_channel_assembles_a_large_message(pair: tuple[Channel, Channel]) -> None:
    near, far = pair
    content = os.urandom(3 << 20)
    thread = threading.Thread(target=near.send, args=({"large": True}, content))
    thread.start()
    received = far.receive()
    thread.join()
    assert received is not None and received[1] == content


def test_channel_skips_the_output_of_a_login_shell(pair: tuple[Channel, Channel]) -> None:
    near, far = pair
    near.write(b"Welcome!\n{}\nlabs-far-" + far_end.READY)
    near.send({"a": 1})
    assert far.skip_behind(far_end.READY, 5)
    assert far.receive() == ({"a": 1}, b"")
    assert not far.skip_behind(far_end.READY, 0)


def test_channel_end_is_an_error(pair: tuple[Channel, Channel]) -> None:
    near, far = pair
    near.write(b'{"half": ')
    near.close()
    near.close()
    with pytest.raises(EOFError):
        far.receive()
    with pytest.raises(BrokenPipeError):
        far.send({"a": 1})
    with pytest.raises(EOFError):
        near.receive(0)
    with pytest.raises(BrokenPipeError):
        near.send({})


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Channel]:
    """A far end as on a machine, connected by pipes instead of ssh."""
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    process = subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", BOOTSTRAP, str(len(modules())), "serve"),
        stdin=theirs_in,
        stdout=theirs_out,
        cwd="/",
    )
    os.close(theirs_in)
    os.close(theirs_out)
    channel = Channel(ours_in, ours_out)
    channel.write(modules())
    assert channel.skip_behind(far_end.READY, 60)
    channel.send({"order": "open", "folder": str(tmp_path / "folder"), "host": "server"})
    assert channel.receive(60) is not None
    yield channel
    channel.close()
    assert process.wait(60) == 0


def test_serve_without_bye_undoes_the_newest_first(served: Channel, tmp_path: Path) -> None:
    said = tmp_path / "said"
    for word in ("one", "two"):
        served.send({"order": "undo", "argv": ["sh", "-c", f"echo {word} >>{said}"]})
        assert served.receive(60) == ({}, b"")
    served.send({"order": "write", "path": str(tmp_path / "folder" / "file")}, b"content")
    assert served.receive(60) == ({}, b"")
    served.close()
    for _ in range(600):
        if not (tmp_path / "folder").exists():
            break
        threading.Event().wait(0.05)
    assert said.read_text() == "two\none\n"
    assert not (tmp_path / "folder").exists()


def test_serve_after_bye_undoes_nothing(served: Channel, tmp_path: Path) -> None:
    said = tmp_path / "said"
    served.send({"order": "undo", "argv": ["touch", str(said)]})
    assert served.receive(60) == ({}, b"")
    served.send({"order": "bye"})
    assert served.receive(60) == ({}, b"")
    with pytest.raises(EOFError):
        served.receive(60)
    assert not said.exists() and not (tmp_path / "folder").exists()


def test_serve_reports_errors_and_continues(served: Channel) -> None:
    for order, error in (
        ({"order": "read", "path": "/nonsuch"}, ("OSError", 2)),
        ({"order": "run", "argv": ["no-such-program"], "timeout_s": 1}, ("Missing", None)),
        ({"order": "run", "argv": ["sleep", "9"], "timeout_s": 0.1}, ("RunFailed", None)),
    ):
        served.send(order)
        received = served.receive(60)
        assert received is not None
        assert (received[0]["error"], received[0].get("errno")) == error
    served.send({"order": "run", "argv": ["echo", "on"], "timeout_s": 60})
    received = served.receive(60)
    assert received is not None and (received[0]["exit"], received[1]) == (0, b"on\n")


def test_machines_have_no_router() -> None:
    machine = Machine(Login("host"), "192.168.56.11", "eth1", PurePosixPath("/tmp/labs"))
    with pytest.raises(BadInput, match="Use --shaped-at server"):
        Machines(Link(shaped_at="router"), machine, machine)
    testbed = Machines(Link(), machine, machine, kind="vagrant")
    assert (testbed.kind, testbed.router, list(testbed.hosts())) == (
        "vagrant",
        None,
        ["server", "client"],
    )


@pytest.mark.parametrize(
    ("shown", "shaped"),
    [
        ("", False),
        ("qdisc noqueue 0: root refcnt 2 \n", False),
        (
            "qdisc pfifo_fast 0: root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n",
            False,
        ),
        ("qdisc mq 0: root \nqdisc fq_codel 0: parent :1 limit 10240p flows 1024\n", False),
        ("qdisc htb 1: root refcnt 2 r2q 10 default 0x100 direct_packets_stat 0\n", True),
        ("qdisc netem 10: root refcnt 2 limit 1000 delay 200ms\n", True),
    ],
)
def test_is_shaped_reads_tc(shown: str, shaped: bool) -> None:
    assert is_shaped(shown) == shaped
    assert unshaping("eth1") == ("tc", "qdisc", "del", "dev", "eth1", "root")


def test_remove_a_folder_to_which_programs_still_write(tmp_path: Path) -> None:
    """At the end of a connection programs are stopped while the folder is being removed."""
    folder = tmp_path / "labs"
    folder.mkdir()
    (folder / far_end.LOCK).touch()
    written = 0

    def write() -> None:
        nonlocal written
        for _ in range(300):
            with contextlib.suppress(OSError):
                (folder / "ss.txt").write_text("a sample")
                written += 1
            time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    while not written:
        time.sleep(0.001)
    far_end._remove(folder, Made.of(folder))
    writer.join()
    assert not folder.exists()
