"""Where a kernel's source comes from: the package archive, or a tarball.

Nothing here needs root: a package from the archive is downloaded and unpacked, not installed. A
series that this machine's release of Debian lacks is taken from a release that has it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from labs.drive.kernel.versions import (
    SERIES,
    KernelSpec,
    age,
    check_supported,
    is_source_version,
    release_of,
    series_of,
)
from labs.drive.record.disk import owned_folder
from labs.errors import BadInput, Damaged, Missing, RunFailed

# Never compiled for User-Mode Linux on x86, and two thirds of the tree. The Kconfig files in these
# folders are kept, because every configuration reads all of them. Wildcards match slashes, too.
_DRIVERS = (
    *("gpu", "media", "infiniband", "staging", "scsi", "crypto", "iio", "clk", "pinctrl"),
    *("net/ethernet", "net/wireless", "accel"),
)
_LEFT_OUT = (
    "*/Documentation/*/*",
    "*/arch/[a-tvwyz]*/*.[chS]",
    "*/arch/[a-tvwyz]*/*.dts*",
    "*/sound/*.[ch]",
    "*/samples/*.[ch]",
    "*/tools/testing/*",
    "*/tools/perf/*",
    *(f"*/drivers/{name}/*.[ch]" for name in _DRIVERS),
)


@dataclass(frozen=True)
class Source:
    """A source to build from.

    `version` is the package's version (6.1.192-2), or empty for a tarball whose version is not
    given; `tarball` is None for a package of the archive; `release` is the release of Debian that
    has it, empty if this machine's own lists have it.
    """

    version: str
    package: str
    tarball: Path | None
    release: str = ""


def locate(spec: KernelSpec, tarball: Path | None = None) -> Source:
    """Find the source that `spec` means, without fetching it.

    Missing if this machine has no such source; BadInput for a digest, for a tarball that does not
    exist, and, without a tarball, for a series that is not supported.
    """
    if spec.form == "digest":
        raise BadInput(f"{spec.text!r} is a digest. Give the version to build, such as 6.1")
    if tarball is not None:
        if not tarball.is_file():
            raise BadInput(f"{tarball} is not a file. --source takes a tarball of kernel sources")
        return Source(spec.text if spec.form == "source" else "", "", tarball)
    check_supported(spec)
    return _archived(package_of(spec.series), spec)


def _archived(package: str, spec: KernelSpec) -> Source:
    """The newest source package that matches `spec`: from this machine's release of Debian, or
    from a release that ships its series."""
    if not shutil.which("apt-get"):
        raise Missing(
            f"this machine has neither the source of Linux {spec.text} nor apt to fetch it. "
            "Give a tarball of kernel sources: labs kernel build --source TARBALL"
        )
    releases = SERIES[spec.series].releases
    available: list[str] = []
    faults = ""
    for release in ("", *releases):
        offered, fault = _offered_by(release) if release else (_offered(), "")
        faults += f" (apt says of {release}: {fault})" if fault else ""
        fitting = [version for version in offered if spec.matches(version, "")]
        if fitting:
            return Source(max(fitting, key=age), package, None, release)
        available += offered
    if not sources("stable", targets()):
        raise Missing(
            f"the source of Linux {spec.text} comes from Debian's archive, of which this machine "
            "knows no mirror. Run as root: apt-get install debootstrap debian-archive-keyring"
        )
    same = [version for version in available if series_of(version) == spec.series]
    newest = {series_of(version): version for version in sorted(available, key=age)}
    raise Missing(
        f"the source of Linux {spec.text} is neither in this machine's package lists nor in those "
        f"of {' and '.join(releases)} on its mirrors{faults}. Available: "
        f"{', '.join(dict.fromkeys(same or newest.values())) or 'none'}. Build one of these, run "
        "`apt-get update` as root, or give a tarball of kernel sources: "
        "labs kernel build --source TARBALL"
    )


def package_of(series: str) -> str:
    """The name of the package with the source of a series."""
    return f"linux-source-{series}"


def _offered(options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The versions of the supported series that apt offers."""
    words = ("apt-cache", *options, "madison", *map(package_of, SERIES))
    return offers(subprocess.run(words, capture_output=True, text=True, check=False).stdout)


def _offered_by(release: str) -> tuple[tuple[str, ...], str]:
    """The versions of the supported series in a release of Debian, and why its lists could not be
    downloaded, if so."""
    with lists_of(release) as (options, fault):
        return _offered(options), fault


def offers(madison: str) -> tuple[str, ...]:
    """The versions in the output of `apt-cache madison` that can be built, once each.

    Release candidates (7.3~rc7-1~exp1) cannot be built.
    """
    versions = (line.split("|")[1].strip() for line in madison.splitlines() if line.count("|") >= 2)
    return tuple(dict.fromkeys(version for version in versions if is_source_version(version)))


def fetch(source: Source, work: Path) -> Path:
    """The source's tarball, downloaded into `work` if it is not on this machine."""
    if source.tarball is not None:
        return source.tarball
    download = work / "download"
    download.mkdir()
    with lists_of(source.release) if source.release else nullcontext(((), "")) as (options, _):
        words = ("apt-get", *options, "download", "-q", f"{source.package}={source.version}")
        done = subprocess.run(words, cwd=download, capture_output=True, text=True, check=False)
    debs = list(download.glob("*.deb"))
    if done.returncode or not debs:
        if re.search(r"hash sum mismatch|unexpected size", done.stderr, re.IGNORECASE):
            raise Damaged(
                f"the package {source.package} {source.version} that was downloaded is not the one "
                "in the package lists: its hash or size is wrong. Run `apt-get update` as root, "
                "and try again"
            )
        reason = (done.stderr.strip().splitlines() or ["apt-get printed nothing"])[-1]
        raise Missing(
            f"cannot download {source.package} {source.version}: {reason}. Check the network, run "
            "`apt-get update` as root, or give a tarball with --source TARBALL"
        )
    inside = Path("usr/src", f"{source.package}.tar.xz")
    words = ("dpkg-deb", "--extract", str(debs[0]), str(download))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode or not (download / inside).is_file():
        raise RunFailed(f"{debs[0].name} does not contain {inside}: {done.stderr.strip()}")
    debs[0].unlink()
    return download / inside


def unpack(tarball: Path, tree: Path) -> str:
    """Unpack a tarball of kernel sources into `tree`, and return its release, such as 6.1.192.

    Files that User-Mode Linux never compiles are skipped. BadInput if it is not a kernel source.
    """
    tree.mkdir()
    words = ["tar", "--extract", f"--file={tarball}", f"--directory={tree}"]
    words += ["--strip-components=1", "--no-same-owner", "--anchored", "--wildcards"]
    words += ["--use-compress-program=xz -T0"] if tarball.name.endswith(".xz") else []
    words += [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        if "No space left" in done.stderr:
            raise Missing(f"the disk of {tree.parent} became full while unpacking {tarball.name}")
        reason = (done.stderr.strip().splitlines() or ["tar failed"])[0]
        raise BadInput(f"cannot unpack {tarball}: {reason}")
    makefile = tree / "Makefile"
    numbers = dict(
        re.findall(
            r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$",
            makefile.read_text("utf-8", "replace") if makefile.is_file() else "",
            re.MULTILINE,
        )
    )
    if len(numbers) < 3 or not (tree / "arch/um/Kconfig").is_file():
        raise BadInput(f"{tarball} does not contain the sources of a Linux kernel with arch/um")
    return f"{numbers['VERSION']}.{numbers['PATCHLEVEL']}.{numbers['SUBLEVEL']}"


def named(source: Source, release: str, spec: KernelSpec) -> str:
    """The version under which a kernel is stored; BadInput if the source has another version."""
    version = source.version or release
    if release_of(version) != release or not spec.matches(version, ""):
        raise BadInput(
            f"the source is Linux {release}, not {spec.text}. Give its version: "
            f"labs kernel build {release}"
            + (f" --source {source.tarball}" if source.tarball else "")
        )
    return version


KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DEBOOTSTRAP = Path("/usr/sbin/debootstrap")


def targets() -> str:
    """The package sources of apt; each line has an address, a suite, a component and an origin.

    If none of them is Debian's, the mirror that debootstrap names is added.
    """
    words = (
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)",
        "Created-By: Packages",
    )
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return listed if " Debian\n" in listed else listed + mirror_of_debian()


def mirror_of_debian(debootstrap: Path = DEBOOTSTRAP) -> str:
    """The mirror of Debian that debootstrap names, as lines of `targets`, for Ubuntu and other
    relatives of Debian; empty if debootstrap is not installed. Security updates, which have the
    newest kernels, are beside it."""
    text = debootstrap.read_text("utf-8", "replace") if debootstrap.is_file() else ""
    named = re.search(r'^DEF_MIRROR="(https?://\S+)"$', text, re.MULTILINE)
    if not named:
        return ""
    return f"{named[1]} stable main Debian\n{named[1]}-security stable-security main Debian\n"


def sources(release: str, listed: str) -> tuple[str, ...]:
    """The sources for `release` on the mirrors in `listed`, which is the output of `targets`.

    One "ADDRESS SUITE main" per source; empty if apt has no Debian sources.
    """
    lines = []
    for line in listed.splitlines():
        address, suite, component, origin = (*line.split(), "", "", "", "")[:4]
        if origin == "Debian" and component == "main" and address.startswith("http"):
            _, dash, pocket = suite.partition("-")
            if pocket in ("", "updates", "security"):
                lines.append(f"{address} {release}{dash}{pocket} main")
    return tuple(dict.fromkeys(lines))


@contextmanager
def lists_of(release: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Download the package lists of `release` from this machine's mirrors of Debian (`targets`).

    Yields the options with which apt-get and apt-cache use these lists instead of the machine's
    own, and apt's errors and warnings. The lists are removed at the end. A list that cannot be
    downloaded counts as empty.
    """
    with owned_folder("labs-apt-", Path(tempfile.gettempdir())) as work:
        signed = f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""
        (work / "sources.list").write_text(
            "".join(f"deb {signed}{line}\n" for line in sources(release, targets()))
        )
        (work / "lists").mkdir()
        (work / "cache").mkdir()
        set_to = {
            "Dir::Etc::sourcelist": work / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": work / "lists",
            "Dir::Cache": work / "cache",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",  # its user _apt may not enter the folder
        }
        options = tuple(f"--option={name}={value}" for name, value in set_to.items())
        words = ("apt-get", *options, "update")
        printed = subprocess.run(words, capture_output=True, text=True, check=False).stderr
        errors = [line[2:].strip(" .") for line in printed.splitlines() if line[:2] in ("E:", "W:")]
        yield options, "; ".join(errors)
