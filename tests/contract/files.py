"""Files of a host: read, written and fetched."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from labs.errors import RunFailed
from labs.guest.testbed.contract import Testbed
from tests.contract.setting import equal, path, refused

LARGE = hashlib.sha512(b"a block that does not compress").digest() * (20_000_000 // 64)
ODD_NAMES = (
    "with blanks",
    "it's",
    'a "name"',
    "$HOME",
    "a\nb",
    "-rf",
    "*",
    "grüße",
    "a\\b",
    "\udcff\udcfe",
    "a;b",
    "#",
)


def check_folder_exists_on_each_host(testbed: Testbed) -> None:
    folders = [host.folder for host in testbed.hosts().values()]
    equal(len(set(folders)), len(folders))
    for host in testbed.hosts().values():
        assert host.folder.is_absolute()
        equal(host.run(("sh", "-c", f"cd '{host.folder}' && touch it && echo *")).stdout, b"it\n")


def check_fetch_copies_large_files(testbed: Testbed) -> None:
    for host in (testbed.server, testbed.client):
        large = path(host, "new/folders/large")
        host.write(large, LARGE)
        assert host.read(large) == LARGE, "what was read is not what was written"
        with tempfile.TemporaryDirectory() as here:
            into = Path(here, "large")
            host.fetch(large, into)
            assert into.read_bytes() == LARGE, "what was fetched is not what was written"
            equal([file.name for file in Path(here).iterdir()], ["large"])
        host.write(large, b"")
        equal(host.read(large), b"")


def check_write_and_read_files_of_any_name(testbed: Testbed) -> None:
    for number, name in enumerate(ODD_NAMES):
        where, content = path(testbed.server, f"odd/{name}/{name}"), str(number).encode()
        testbed.server.write(where, content)
        equal(testbed.server.read(where), content)
        with tempfile.TemporaryDirectory() as here:
            testbed.server.fetch(where, Path(here, name))
            equal(Path(here, name).read_bytes(), content)
    listed = testbed.server.run(("ls", "-N", "-a", path(testbed.server, "odd"))).stdout
    for name in ODD_NAMES:
        assert name.encode(errors="surrogateescape") in listed, name


def check_read_gives_whole_files_of_the_kernel(testbed: Testbed) -> None:
    equal(len(testbed.client.read("/proc/net/tcp").splitlines()[0].split()), 12)
    equal(testbed.client.read("/proc/net/dev").count(b"lo:"), 1)


def check_read_of_a_missing_file_names_it(testbed: Testbed) -> None:
    with refused(RunFailed, "/nonsuch/file", "server", "No such file"):
        testbed.server.read("/nonsuch/file")
    with refused(RunFailed, str(testbed.client.folder), "client", "directory"):
        testbed.client.read(str(testbed.client.folder))
    with refused(RunFailed, "/proc/nonsuch/file", "client"):
        testbed.client.write("/proc/nonsuch/file", b"x")


def check_fetch_leaves_all_or_nothing(testbed: Testbed) -> None:
    client, there = testbed.client, path(testbed.client, "file")
    client.write(there, LARGE)
    with tempfile.TemporaryDirectory() as here:
        kept = Path(here, "kept")
        kept.write_bytes(b"from before")
        with refused(RunFailed, "/nonsuch", "client"):
            client.fetch("/nonsuch", kept)
        with refused(RunFailed, "/nonsuch", "client"):
            client.fetch("/nonsuch", Path(here, "new"))
        with refused(RunFailed, there, "client"):
            client.fetch(there, Path(here, "no", "folder"))
        equal(
            [(file.name, file.read_bytes()) for file in Path(here).iterdir()],
            [("kept", b"from before")],
        )
        client.fetch(there, kept)
        assert kept.read_bytes() == LARGE
    equal(client.run(("echo", "still here")).stdout, b"still here\n")
