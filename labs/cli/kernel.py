"""Build, check and list the kernels that the virtual testbed boots.

VERSION is a series (6.1 means its newest version) or a source version (6.1.192-2); `check` also
accepts the first 8 digits of a digest. Building a kernel takes about two minutes on two cores.
Kernels are stored under their digests in the cache. LABS_KERNELS names shared stores, which are
searched first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labs.drive.kernel.versions import DEFAULT, read_kernel_spec
from labs.errors import BadInput, ResultsDiffer
from labs.read.display.format import terminal_table

COLUMNS = ("version", "source", "hz", "digest", "store")


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(
        name: str, does: str, more: str, answer: Callable[[argparse.Namespace], int]
    ) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=does, description=f"{does}\n\n{more}")
        made.add_argument("--json", action="store_true", help="print one JSON object")
        made.set_defaults(answer=answer)
        return made

    _configure_build(verb)
    verb(
        "list",
        "list the built kernels",
        "The stores are listed in search order: LABS_KERNELS, then your own cache.",
        main_list,
    )
    add = verb(
        "add",
        "add a kernel that was built elsewhere",
        "The file must have the given digest and pass the check.",
        main_add,
    )
    add.add_argument("file", type=Path, metavar="FILE", help="a User-Mode Linux kernel")
    add.add_argument("--sha256", required=True, metavar="DIGEST", help="all 64 hex digits")
    _into(add)
    _dry_run(add)
    check = verb(
        "check",
        "boot a kernel and compare it with its reference figures",
        "Boots the kernel twice, which must give equal results; measures a link of 200 ms, and\n"
        "how a receive buffer of 32 KiB fills (article 4). Nothing is changed.",
        main_check,
    )
    _version(check, "a version or a digest")
    again = verb(
        "reproduce",
        "build a kernel twice and compare the results",
        "Builds in two folders. If the digests differ, the exit code is 5. Neither build is kept.",
        main_reproduce,
    )
    _version(again)
    _jobs(again)
    _dry_run(again)


def _configure_build(verb: Callable[..., argparse.ArgumentParser]) -> None:
    build = verb(
        "build",
        "build a kernel, check it and store it",
        "The source is your own TARBALL, or the package linux-source-VERSION, which apt downloads\n"
        "from the release of Debian that has it (5.10: Debian 11; 6.1: 12; 6.12: 13; 7.2:\n"
        "testing). That needs no root and installs nothing.\n\n"
        "  labs kernel build                   the default version\n"
        "  labs kernel build 6.12 --dry-run    print what would be done\n"
        "  labs kernel build 6.1.190-1         one version of the source package",
        main_build,
    )
    _version(build)
    build.add_argument(
        "--source",
        type=Path,
        metavar="TARBALL",
        help="build from these kernel sources, which must match VERSION",
    )
    build.add_argument("--fresh", action="store_true", help="build even if the kernel exists")
    _jobs(build)
    _into(build)
    _dry_run(build)


def _version(parser: argparse.ArgumentParser, what: str = "a series or a source version") -> None:
    text = f"{what} (default: %(default)s)"
    parser.add_argument("spec", nargs="?", default=DEFAULT, metavar="VERSION", help=text)


def _jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="concurrent compilers (default: one per CPU)"
    )


def _into(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--into", type=Path, metavar="DIR", help="use this store instead of the cache"
    )


def _dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")


def main(args: argparse.Namespace) -> int:
    code: int = args.answer(args)
    return code


def main_build(args: argparse.Namespace) -> int:
    from labs.drive.kernel.build import Progress, build, plan
    from labs.drive.kernel.store import record

    spec = read_kernel_spec(args.spec)
    if args.dry_run:
        return _say(plan(spec, tarball=args.source, into=args.into), args.json)
    done = build(
        spec,
        tarball=args.source,
        fresh=args.fresh,
        jobs=_checked_jobs(args),
        into=args.into,
        progress=Progress(),
    )
    if args.json:
        checked = record(done.kernel.folder).get("checked", {})
        print(json.dumps(_as_json(done.kernel) | {"built": done.fresh, "checked": checked}))
    else:
        how = "built and checked" if done.fresh else "already exists"
        print(f"Linux {done.kernel.source} {how}: {done.kernel.folder}")
    return 0


def main_list(args: argparse.Namespace) -> int:
    from labs.drive.kernel import store

    stored = store.kernels()
    if args.json:
        stores, kernels = list(map(str, store.stores())), list(map(_as_json, stored))
        print(json.dumps({"stores": stores, "kernels": kernels}))
    elif stored:
        rows = [
            _as_json(kernel) | {"digest": kernel.sha256[:12], "store": str(kernel.folder.parent)}
            for kernel in stored
        ]
        print(terminal_table(rows, COLUMNS))
    else:
        print(f"no kernel is built. Next step: labs kernel build {DEFAULT}")
    return 0


def main_add(args: argparse.Namespace) -> int:
    from labs.drive.kernel.build import add, plan_add

    if args.dry_run:
        return _say(plan_add(args.file, args.sha256, into=args.into), args.json)
    kernel = add(args.file, args.sha256, into=args.into)
    if args.json:
        print(json.dumps(_as_json(kernel)))
    else:
        print(f"Linux {kernel.version} checked and stored: {kernel.folder}")
    return 0


def main_check(args: argparse.Namespace) -> int:
    from labs.drive.kernel import check, store

    kernel = store.find(args.spec)
    measured = check.measure(kernel.path)
    faults = check.judge(measured, kernel.version)
    rows = check.compared(measured)
    if args.json:
        checked = {"measured": measured, "figures": rows, "faults": faults}
        print(json.dumps(_as_json(kernel) | checked))
    else:
        print(
            f"Linux {kernel.source}, {kernel.sha256[:12]}: two boots "
            f"{'differ' if measured['differs'] else 'are equal'}, {measured['hz']} Hz"
        )
        print(terminal_table(rows, ("figure", "measured", "expected")))
        if not check.judged(kernel.version):
            print("no reference figures for this series; the measurements were not judged")
    if faults:
        raise check.failure(faults)
    return 0


def main_reproduce(args: argparse.Namespace) -> int:
    from labs.drive.kernel.build import Progress, plan_reproduce, reproduce

    spec = read_kernel_spec(args.spec)
    if args.dry_run:
        return _say(plan_reproduce(spec), args.json)
    builds = reproduce(spec, jobs=_checked_jobs(args), progress=Progress())
    same = len({build["sha256"] for build in builds}) == 1
    if args.json:
        print(json.dumps({"same": same, "builds": builds}))
    else:
        print(terminal_table(builds, ("seconds", "folder")))
        print("\n".join(f"sha256 {build['sha256']}" for build in builds))
        print("identical" if same else "the builds differ")
    return 0 if same else ResultsDiffer.exit_code


def _checked_jobs(args: argparse.Namespace) -> int | None:
    jobs: int | None = args.jobs
    if jobs is not None and not 1 <= jobs <= 1024:
        raise BadInput(f"--jobs {jobs} is out of range. Allowed: 1 to 1024")
    return jobs


def _as_json(kernel: Any) -> dict[str, Any]:
    return {
        "version": kernel.version,
        "source": kernel.source,
        "sha256": kernel.sha256,
        "hz": kernel.hz,
        "path": str(kernel.path),
    }


def _say(plan: dict[str, Any], as_json: bool) -> int:
    """Print what would be done."""
    if as_json:
        print(json.dumps(plan))
    else:
        for name, value in plan.items():
            shown = ", ".join(value) if isinstance(value, list) else value
            print(f"{name}: {'-' if shown is None else shown}")
    return 0
