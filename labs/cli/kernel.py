"""Build, check and list the kernels that the virtual testbed boots.

VERSION is a series (6.1 means its newest version) or a source version (6.1.192-2); `check` also
accepts the first 8 digits of a digest. Building a kernel takes about two minutes on two cores.
Kernels are stored under their digests in the cache. LABS_KERNELS names shared stores, which are
searched first.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from labs.cli.command import DRY_RUN, Answer, Verb, arg
from labs.drive.kernel.versions import DEFAULT, read_kernel_spec
from labs.errors import ResultsDiffer
from labs.read.display.format import terminal_table

COLUMNS = ("version", "source", "hz", "digest", "store")


def main_build(args: Namespace) -> Answer:
    """Build a kernel, check it and store it.

    The source is your own TARBALL, or the package linux-source-VERSION. If the package is not
    installed, apt downloads it from the release of Debian that has it (5.10: Debian 11; 6.1: 12;
    6.12: 13; 7.2: testing), which needs no root and installs nothing.

      labs kernel build                   the default version
      labs kernel build 6.12 --dry-run    print what would be done
      labs kernel build 6.1.190-1         one version of the source package
    """
    from labs.drive.kernel.build import Progress, build, plan
    from labs.drive.kernel.store import record

    spec = read_kernel_spec(args.version)
    if args.dry_run:
        return _plan(plan(spec, tarball=args.source, into=args.into))
    done = build(
        spec,
        tarball=args.source,
        fresh=args.fresh,
        jobs=args.jobs,
        into=args.into,
        progress=Progress(),
    )
    how = "built and checked" if done.fresh else "already exists"
    return Answer(
        _as_json(done.kernel)
        | {"built": done.fresh, "checked": record(done.kernel.folder).get("checked", {})},
        f"Linux {done.kernel.source} {how}: {done.kernel.folder}",
    )


def main_list(args: Namespace) -> Answer:
    """List the built kernels.

    The stores are listed in search order: LABS_KERNELS, then your own cache.
    """
    from labs.drive.kernel import store

    stored = store.kernels()
    rows = [
        _as_json(kernel) | {"digest": kernel.sha256[:12], "store": str(kernel.folder.parent)}
        for kernel in stored
    ]
    return Answer(
        {"stores": list(map(str, store.stores())), "kernels": list(map(_as_json, stored))},
        terminal_table(rows, COLUMNS)
        if rows
        else f"no kernel is built. Next step: labs kernel build {DEFAULT}",
    )


def main_add(args: Namespace) -> Answer:
    """Add a kernel that was built elsewhere.

    The file must have the given digest and pass the check.
    """
    from labs.drive.kernel.build import add, plan_add

    if args.dry_run:
        return _plan(plan_add(args.file, args.sha256, into=args.into))
    kernel = add(args.file, args.sha256, into=args.into)
    return Answer(_as_json(kernel), f"Linux {kernel.version} checked and stored: {kernel.folder}")


def main_check(args: Namespace) -> Answer:
    """Boot a kernel and compare it with its reference figures.

    Boots the kernel twice, which must give equal results; measures a link of 200 ms, and how a
    receive buffer of 32 KiB fills (article 4). Nothing is changed.
    """
    from labs.drive.kernel import check, store

    kernel = store.find(args.version)
    measured = check.measure(kernel.path)
    faults = check.judge(measured, kernel.version)
    rows = check.compared(measured)
    lines = [
        f"Linux {kernel.source}, {kernel.sha256[:12]}: two boots "
        f"{'differ' if measured['differs'] else 'are equal'}, {measured['hz']} Hz",
        terminal_table(rows, ("figure", "measured", "expected")),
    ]
    if not check.judged(kernel.version):
        lines.append("no reference figures for this series; the measurements were not judged")
    return Answer(
        _as_json(kernel) | {"measured": measured, "figures": rows, "faults": faults},
        "\n".join(lines),
        error=check.failure(faults) if faults else None,
    )


def main_reproduce(args: Namespace) -> Answer:
    """Build a kernel twice and compare the results.

    Builds in two folders. If the digests differ, the exit code is 5. Neither build is kept.
    """
    from labs.drive.kernel.build import Progress, plan_reproduce, reproduce

    spec = read_kernel_spec(args.version)
    if args.dry_run:
        return _plan(plan_reproduce(spec))
    builds = reproduce(spec, jobs=args.jobs, progress=Progress())
    same = len({build["sha256"] for build in builds}) == 1
    lines = [
        terminal_table(builds, ("seconds", "folder")),
        *(f"sha256 {build['sha256']}" for build in builds),
        "identical" if same else "the builds differ",
    ]
    code = 0 if same else ResultsDiffer.exit_code
    return Answer({"same": same, "builds": builds}, "\n".join(lines), exit_code=code)


def _as_json(kernel: Any) -> dict[str, Any]:
    return {
        "version": kernel.version,
        "source": kernel.source,
        "sha256": kernel.sha256,
        "hz": kernel.hz,
        "path": str(kernel.path),
    }


def _plan(plan: dict[str, Any]) -> Answer:
    """What would be done."""
    words = {
        name: ", ".join(value) if isinstance(value, list) else value for name, value in plan.items()
    }
    lines = (f"{name}: {'-' if value is None else value}" for name, value in words.items())
    return Answer(plan, "\n".join(lines))


VERSION = arg("[VERSION]", "a series or a source version", default=DEFAULT)
JOBS = arg("--jobs N", "concurrent compilers (default: one per CPU)", int, least=1, most=1024)
INTO = arg("--into DIR", "use this store instead of the cache", Path)
VERBS = {
    "build": Verb(
        main_build,
        (
            VERSION,
            arg("--source TARBALL", "these kernel sources, which must match VERSION", Path),
            arg("--fresh", "build even if the kernel exists"),
            JOBS,
            INTO,
            DRY_RUN,
        ),
    ),
    "list": Verb(main_list),
    "add": Verb(
        main_add,
        (
            arg("FILE", "a User-Mode Linux kernel", Path),
            arg("--sha256 DIGEST", "all 64 hex digits", required=True),
            INTO,
            DRY_RUN,
        ),
    ),
    "check": Verb(main_check, (arg("[VERSION]", "a version or a digest", default=DEFAULT),)),
    "reproduce": Verb(main_reproduce, (VERSION, JOBS, DRY_RUN)),
}
