"""The programs of this machine: what they say of their versions, and the libraries that they load,
held to what its loader says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from labs.drive.kernel.boot import PATH
from labs.drive.kernel.programs import libraries, version
from labs.errors import Missing

COMPLAINT = (
    "ERROR: ld.so: object '/lib/none.so' from /etc/ld.so.preload cannot be preloaded "
    "(cannot open shared object file): ignored."
)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("nginx version: nginx/1.22.1", "built by gcc"), "nginx version: nginx/1.22.1"),
        ((COMPLAINT, "nginx version: nginx/1.22.1"), "nginx version: nginx/1.22.1"),
        ((COMPLAINT,), ""),
        ((), ""),
    ],
)
def test_version_is_the_programs_own_first_line(
    lines: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    program = tmp_path / "nginx"
    program.write_text("#!/bin/sh\n" + "".join(f'echo "{line}" >&2\n' for line in lines))
    program.chmod(0o755)
    assert version(program) == said


def found(*names: str) -> dict[str, Path]:
    return {
        name: Path(shutil.which(name, path=PATH) or pytest.skip(f"no {name}")) for name in names
    }


@pytest.mark.parametrize("name", ["ip", "ss", "sh"])
def test_libraries_are_all_that_a_program_needs(name: str) -> None:
    program = found(name)[name]
    if shutil.which("readelf") is None:
        pytest.skip("readelf (binutils) is not installed")
    done = subprocess.run(("readelf", "-d", "-l", program), capture_output=True, text=True)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", done.stdout)
    (loader,) = re.findall(r"interpreter: .+/(.+)\]", done.stdout)
    loaded = libraries([program])
    assert {*needed, loader} <= set(loaded)
    assert all(path.is_file() for path in loaded.values())


def test_libraries_have_what_cancelling_a_thread_opens(tmp_path: Path) -> None:
    """The loader does not list libgcc_s: the C library opens it (nptl/pthread_cancel.c)."""
    (tmp_path / "cancel.c").write_text(
        "#include <pthread.h>\nint main(void) { return pthread_cancel(pthread_self()); }\n"
    )
    gcc, program = found("gcc")["gcc"], tmp_path / "cancel"
    subprocess.run((gcc, "-pthread", "-o", program, tmp_path / "cancel.c"), check=True)
    loaded = libraries([program])
    assert {"libc.so.6", "libgcc_s.so.1"} <= set(loaded)
    assert loaded["libgcc_s.so.1"].is_file()
    assert "libgcc_s.so.1" not in libraries([found("ip")["ip"]])


def test_libraries_of_a_script_are_none(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert libraries([tmp_path / "script"]) == {}


def test_libraries_that_are_not_here_are_named(tmp_path: Path) -> None:
    program = found("ip")["ip"].read_bytes()
    (tmp_path / "ip").write_bytes(program.replace(b"libmnl.so.0", b"libnon.so.0"))
    with pytest.raises(Missing, match=r"libnon\.so\.0"):
        libraries([tmp_path / "ip"])
