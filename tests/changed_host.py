"""Start a program on a changed host: `changed_host.py ORDER`, where ORDER is a JSON file.

Root starts this below `unshare --mount`. Each folder in `layers` gets an overlay on a tmpfs, the
`steps` change files there, and then `argv` replaces this process. The host itself does not change:
during the steps its file systems are read-only in this namespace, and the layers disappear with it.

Exit code 125, with one line, if this host does not allow a step.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

NOT_HERE = 125
# Kinds of file systems that hold the host's files.
DISKS = ("btrfs", "ext4", "fuse-overlayfs", "overlay", "xfs", "zfs")


class NotHere(Exception):
    """A step that this host does not allow."""


def mount(*words: str) -> None:
    step(("mount", *words))


def step(argv: tuple[str, ...]) -> None:
    """Run one command; NotHere with its first line if it fails."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise NotHere(
            (done.stderr or done.stdout).strip().partition("\n")[0] or f"{argv[0]} failed"
        )


def disks() -> list[str]:
    """Where the host's writable file systems are mounted (proc_pid_mountinfo(5))."""
    lines = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    kinds = {line[4]: (line[line.index("-") + 1], line[5].split(",")) for line in lines}
    return [where for where, (kind, options) in kinds.items() if kind in DISKS and "rw" in options]


def write(path: str, text: str, replaced: str | None, append: bool) -> None:
    """Set a file's content to `text`, append `text`, or put `text` in place of `replaced`."""
    file = Path(path)
    old, new = b"", text.encode("latin-1")
    if append or replaced is not None:
        old = file.read_bytes()
    if replaced is not None:
        wanted = replaced.encode("latin-1")
        if wanted not in old:
            raise NotHere(f"{path} does not contain {replaced}")
        new = old.replace(wanted, new)
    elif not append:
        # A link would lead to another file.
        file.unlink(missing_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab" if append else "wb") as out:
        out.write(new)


def change(work: Path, layers: list[str], steps: list[Any]) -> None:
    """Mount the layers and take the steps; meanwhile the host's file systems are read-only."""
    hosts = disks()
    mount("--bind", str(work), str(work))
    above = work / "layers"
    above.mkdir()
    mount("-t", "tmpfs", "tmpfs", str(above))
    for number, folder in enumerate(layers):
        upper, inner = above / f"{number}", above / f"{number}-work"
        upper.mkdir()
        inner.mkdir()
        upper.chmod(os.stat(folder).st_mode & 0o7777)
        options = f"lowerdir={folder},upperdir={upper},workdir={inner}"
        mount("-t", "overlay", "overlay", "-o", options, folder)
    for where in hosts:
        mount("-o", "remount,bind,ro", where)
    try:
        for one in steps:
            if isinstance(one, dict):
                write(**one)
            else:
                step(tuple(one))
    except OSError as error:
        raise NotHere(f"{error.filename}: {error.strerror}") from None
    finally:
        for where in hosts:
            with contextlib.suppress(NotHere):  # hidden by what was mounted above it
                mount("-o", "remount,bind,rw", where)


def main(order: dict[str, Any]) -> NoReturn:
    try:
        if order["layers"] or order["steps"]:
            change(Path(order["work"]), order["layers"], order["steps"])
        if order["prefix"]:
            step((*order["prefix"], "true"))
    except NotHere as error:
        print(error, file=sys.stderr)
        sys.exit(NOT_HERE)
    os.umask(order["umask"])
    os.chdir(order["folder"])
    argv = [*order["prefix"], *order["argv"]]
    os.execvpe(argv[0], argv, order["env"])


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
