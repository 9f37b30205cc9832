"""Make or use a kit: the programs of virtual runs, and kernels, in one file.

Runs of one kit have equal keys on every x86-64 Linux, whatever is installed there, before and after
an upgrade. The first virtual run makes one of this machine's programs.
"""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from labs.errors import BadInput, LabError, Missing
from labs.read.display.format import printable, size_in_words

EXAMPLES = """examples:
  labs kit make                     make a kit of this machine's programs as they are now
  labs kit make --with vegeta       also of a program that a lab of your own starts
  labs kit make --out kit.tar.xz    with the kernels that are built here, for other machines
  labs kit use kit.tar.xz           use it there
  labs kit show                     what is in the kit in use"""


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    parser.epilog = EXAMPLES
    make = verbs.add_parser(
        "make",
        help="make a kit of this machine's programs, and use it",
        description="The first virtual run makes a kit; later upgrades of the machine do not "
        "change it. Make another to use newer programs: virtual runs then have other keys. With "
        "--out, the newest built kernel of each series is included, and all programs must come "
        "from Debian's packages, whose versions and sources the kit lists.",
    )
    make.add_argument(
        "--with",
        dest="more",
        action="append",
        default=[],
        metavar="NAME",
        help="also include this program; can be repeated",
    )
    make.add_argument("--out", type=Path, metavar="FILE", help="also write it as a file (.tar.xz)")
    use = verbs.add_parser(
        "use",
        help="use a kit for all virtual runs of this user",
        description="The kit is unpacked into the cache if all of it is as its manifest says. Its "
        "programs run as you, and not only in the guest: use a kit only from somebody you trust.",
    )
    use.add_argument("file", type=Path, metavar="FILE", help="a kit, as labs kit make writes it")
    use.add_argument("--sha256", metavar="DIGEST", help="the SHA-256 that the file must have")
    show = verbs.add_parser("show", help="show the kit in use", description="Nothing is changed.")
    for verb, answer in ((make, main_make), (use, main_use), (show, main_show)):
        verb.add_argument("--json", action="store_true", help="print one JSON object")
        if verb is not show:
            verb.add_argument("--dry-run", action="store_true", help="only print what it would do")
        verb.set_defaults(answer=answer)


def main(args: argparse.Namespace) -> int:
    code: int = args.answer(args)
    return code


def main_make(args: argparse.Namespace) -> int:
    from labs.drive.kernel import kit_maker

    if args.out is not None and args.out.suffixes[-2:] != [".tar", ".xz"]:
        raise BadInput(f"--out {args.out}: the name of a kit must end in .tar.xz")
    kernels = _newest_kernels() if args.out else ()
    if args.dry_run:
        chosen, lacking = kit_maker.choice(args.more)
        plan = {
            "programs": sorted(chosen),
            "lacking": list(lacking),
            "kernels": [kernel.source for kernel in kernels],
            "out": args.out and str(args.out),
        }
        return _print(plan, args.json, {name: str(value) for name, value in plan.items()})
    tell = _quiet if args.json else print
    return _show_instead_of(
        _root_in_use(), kit_maker.make(args.more, kernels, args.out, tell=tell), args.json
    )


def _newest_kernels() -> tuple[Any, ...]:
    """The newest kernel of each series that is built here and needs none of this machine's
    libraries; Missing if there is none."""
    from labs.drive.kernel.build import LINK
    from labs.drive.kernel.store import kernels_of, own_store, record, shared_stores
    from labs.drive.kernel.versions import age, series_of

    built = [
        kernel
        for store in (own_store(), *shared_stores())
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


def main_use(args: argparse.Namespace) -> int:
    from labs.drive.kernel import kit

    if not args.file.is_file():
        raise BadInput(f"{args.file} is not a file. Give a kit, as labs kit make --out writes it")
    if args.dry_run:
        return _print({"use": str(args.file)}, args.json, {"would use": str(args.file)})
    return _show_instead_of(_root_in_use(), kit.use(args.file, args.sha256), args.json)


def main_show(args: argparse.Namespace) -> int:
    from labs.drive.kernel import kit

    return _show(kit.in_use(), args.json)


def _root_in_use() -> str | None:
    """The digest of the root of the kit in use; None if there is none, or it is damaged."""
    from labs.drive.kernel import kit

    with suppress(LabError):
        used = kit.in_use()
        return used.root_digest if used else None
    return None


def _show_instead_of(root: str | None, kit: Any, as_json: bool) -> int:
    if not as_json and root not in (None, kit.root_digest):
        print("the programs differ from those before: virtual runs now have other keys")
    return _show(kit, as_json)


def _show(kit: Any, as_json: bool) -> int:
    if kit is None:
        text = "none yet: the first virtual run makes one of this machine's programs"
        return _print({"kit": None}, as_json, {"kit": text})
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
    return _print(value, as_json, texts)


def _print(value: dict[str, Any], as_json: bool, texts: dict[str, str]) -> int:
    lines = [f"{printable(name) + ':':13s} {printable(text)}" for name, text in texts.items()]
    print(json.dumps(value) if as_json else "\n".join(lines))
    return 0


def _quiet(line: str) -> None:
    pass
