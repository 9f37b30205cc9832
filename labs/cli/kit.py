"""Make or use a kit: the programs of virtual runs, and kernels, in one file.

Runs of one kit have equal keys on every x86-64 Linux, whatever is installed there, before and after
an upgrade. The first virtual run makes one of this machine's programs.

  labs kit make                     make a kit of this machine's programs as they are now
  labs kit make --with vegeta       also of a program that a lab of your own starts
  labs kit make --out kit.tar.xz    with the kernels that are built here, for other machines
  labs kit use kit.tar.xz           use it there
  labs kit show                     what is in the kit in use
"""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Any

from labs.cli.command import DRY_RUN, Answer, Verb, arg
from labs.errors import BadInput, LabError, Missing
from labs.read.display.format import printable, size_in_words

CHANGED = "the programs differ from those before: virtual runs now have other keys"


def main_make(args: Namespace) -> Answer:
    """Make a kit of this machine's programs, and use it.

    The first virtual run makes a kit; later upgrades of the machine do not change it. Make another
    to use newer programs: virtual runs then have other keys. With --out, the newest built kernel of
    each series is included, and all programs must come from Debian's packages, whose versions and
    sources the kit lists.
    """
    from labs.drive.kernel import kit_maker

    kernels = _newest_kernels() if args.out else ()
    if args.dry_run:
        chosen, lacking = kit_maker.choice(args.more)
        plan = {
            "programs": sorted(chosen),
            "lacking": list(lacking),
            "kernels": [kernel.source for kernel in kernels],
            "out": args.out and str(args.out),
        }
        words = {
            name: ", ".join(value) if isinstance(value, list) else value or "-"
            for name, value in plan.items()
        }
        return Answer(plan, _lines(words))
    before = _root_in_use()
    made = kit_maker.make(
        args.more, kernels, args.out, tell=lambda line: print(line, file=sys.stderr)
    )
    return _answer(made, before)


def _newest_kernels() -> tuple[Any, ...]:
    """The newest kernel of each series that is built here and needs none of this machine's
    libraries; Missing if there is none."""
    from labs.drive.kernel.build import LINK
    from labs.drive.kernel.store import kernels_of, record, stores
    from labs.drive.kernel.versions import age, series_of

    built = [
        kernel
        for store in reversed(tuple(stores()))
        for kernel in reversed(kernels_of(store))
        if record(kernel.folder).get("link") == LINK
    ]
    newest = {
        series_of(kernel.version): kernel
        for kernel in sorted(built, key=lambda kernel: age(kernel.source))
    }
    if not newest:
        raise Missing(
            "no kernel is built that boots on any machine, and a kit for others has at least one. "
            "Run: labs kernel build"
        )
    return tuple(newest[series] for series in sorted(newest))


def main_use(args: Namespace) -> Answer:
    """Use a kit for all virtual runs of this user.

    The kit is unpacked into the cache if all of it is as its manifest says. Its programs run as
    you, and not only in the guest: use a kit only from somebody you trust.
    """
    from labs.drive.kernel import kit

    if not args.file.is_file():
        raise BadInput(f"{args.file} is not a file. Give a kit, as labs kit make --out writes it")
    if args.dry_run:
        return Answer({"use": str(args.file)}, _lines({"would use": str(args.file)}))
    before = _root_in_use()
    return _answer(kit.use(args.file, args.sha256), before)


def main_show(args: Namespace) -> Answer:
    """Show the kit in use."""
    from labs.drive.kernel import kit

    return _answer(kit.in_use())


def _root_in_use() -> str | None:
    """The digest of the root of the kit in use; None if there is none, or it is damaged."""
    from labs.drive.kernel import kit

    with suppress(LabError):
        used = kit.in_use()
        return used.root_digest if used else None
    return None


def _answer(kit: Any, root_before: str | None = None) -> Answer:
    """A kit, and whether it changes the keys of virtual runs."""
    if kit is None:
        text = "none yet: the first virtual run makes one of this machine's programs"
        return Answer({"kit": None}, _lines({"kit": text}))
    manifest = kit.manifest
    size = sum(size for _, _, size in manifest.files.values())
    value = {
        "kit": kit.digest,
        "root": kit.root_digest,
        "bytes": size,
        "kernels": manifest.kernels,
        "programs": manifest.programs,
        "packages": manifest.packages,
    }
    texts = {
        "kit": f"{kit.digest[:12]}, {size_in_words(size)}, in {kit.folder}",
        "root": f"{kit.root_digest[:12]}, in the keys of its runs",
        "kernels": ", ".join(manifest.kernels.values()) or "none (those built here are used)",
        **manifest.programs,
    }
    changed = root_before not in (None, kit.root_digest)
    return Answer(value, _lines(texts), [CHANGED] if changed else [])


def _lines(texts: dict[str, str]) -> str:
    return "\n".join(
        f"{printable(name) + ':':13s} {printable(text)}" for name, text in texts.items()
    )


VERBS = {
    "make": Verb(
        main_make,
        (
            arg("--with NAME...", "also include this program; may be repeated", dest="more"),
            arg("--out FILE.tar.xz", "also write it as a file"),
            DRY_RUN,
        ),
    ),
    "use": Verb(
        main_use,
        (
            arg("FILE", "a kit, as labs kit make writes it", Path),
            arg("--sha256 DIGEST", "the SHA-256 that the file must have"),
            DRY_RUN,
        ),
    ),
    "show": Verb(main_show),
}
