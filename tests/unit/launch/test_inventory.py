"""What runs are made with: the programs of this machine and what they say of their versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.launch.inventory import version

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
