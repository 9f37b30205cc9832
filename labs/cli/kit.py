"""Make or use a kit: the kernels and programs of virtual runs in one file.

Runs of one kit have equal keys on every x86-64 Linux, whatever is installed there: a class needs
neither Debian nor a compiler nor root. A kit is made on Debian from its packages.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labs.errors import BadInput
from labs.read.display.format import printable, size_in_words

EXAMPLES = """examples:
  labs kit make --out kit.tar.xz    make a kit of this machine's programs and kernels
  labs kit use kit.tar.xz           use it here, or on another machine
  labs kit use none                 use this machine's programs and kernels again
  labs kit show                     what is in the kit in use"""


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    parser.epilog = EXAMPLES
    make = verbs.add_parser(
        "make",
        help="make a kit of this machine's programs and built kernels, and use it",
        description="The newest built kernel of each series is included. Programs come from "
        "Debian's packages; the kit lists their versions and sources.",
    )
    make.add_argument("--out", type=Path, metavar="FILE", help="also write it as a file (.tar.xz)")
    use = verbs.add_parser(
        "use",
        help="use a kit for all virtual runs of this user",
        description="The kit is unpacked into the cache if all of it is as its manifest says. Its "
        "programs run as you, and not only in the guest: use a kit only from somebody you trust.",
    )
    use.add_argument("file", metavar="FILE", help="a kit, or none for this machine's programs")
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
    from labs.launch.kit import ingredients, make

    if args.out is not None and args.out.suffixes[-2:] != [".tar", ".xz"]:
        raise BadInput(f"--out {args.out}: the name of a kit must end in .tar.xz")
    if args.dry_run:
        parts = ingredients()
        plan = {
            "programs": sorted(parts.programs),
            "kernels": [kernel.source for kernel in parts.kernels],
            "out": args.out and str(args.out),
        }
        return _print(plan, args.json, {name: str(value) for name, value in plan.items()})
    return _show(make(args.out, tell=_quiet if args.json else print), args.json)


def main_use(args: argparse.Namespace) -> int:
    from labs.drive.kernel import kit

    if args.file == kit.NONE and args.sha256:
        raise BadInput("--sha256 is the digest of a file, and none is no file. Leave it out")
    if args.file != kit.NONE and not Path(args.file).is_file():
        raise BadInput(f"{args.file} is not a file. Give a kit, or none")
    if args.dry_run:
        return _print({"use": args.file}, args.json, {"would use": args.file})
    if args.file == kit.NONE:
        kit.choose(kit.NONE)
        return _show(None, args.json)
    return _show(kit.use(Path(args.file), args.sha256), args.json)


def main_show(args: argparse.Namespace) -> int:
    from labs.drive.kernel import kit

    return _show(kit.in_use(), args.json)


def _show(kit: Any, as_json: bool) -> int:
    if kit is None:
        text = "none is in use: virtual runs use this machine's programs and kernels"
        return _print({"kit": None}, as_json, {"kit": text})
    manifest = kit.manifest
    size = sum(size for _, _, size in manifest.files.values())
    value = {
        "kit": kit.digest,
        "bytes": size,
        "kernels": manifest.kernels,
        "programs": manifest.programs,
        "packages": manifest.packages,
    }
    texts = {
        "kit": f"{kit.digest[:12]}, {size_in_words(size)}, in {kit.folder}",
        "kernels": ", ".join(manifest.kernels.values()),
        **manifest.programs,
    }
    return _print(value, as_json, texts)


def _print(value: dict[str, Any], as_json: bool, texts: dict[str, str]) -> int:
    lines = [f"{printable(name) + ':':13s} {printable(text)}" for name, text in texts.items()]
    print(json.dumps(value) if as_json else "\n".join(lines))
    return 0


def _quiet(line: str) -> None:
    pass
