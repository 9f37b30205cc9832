"""The series of kernels with all that is known of each, and the names of kernels: what a user may
request, and which of two versions is newer.

6.1            a series: its newest version
6.1.192        a release: built from any revision of the source package
6.1.192-2      one version of the source package
3f9a2c41...    a digest, or at least its first 8 digits
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from labs.errors import BadInput

DEFAULT = "6.1"
PATCHES = Path(__file__).parent / "patches"
OF_EVERY_SERIES = ("end-with-tracer", "four-windows", "hz-250", "own-alarms")


@dataclass(frozen=True)
class Series:
    """What a build of a series of kernels needs to know.

    `releases` of Debian ship its source, in the order in which they are searched; `objects` are
    compiled, which is the length of the progress bar; `patches` are files of the folder of patches,
    besides those of every series; `fragments` are the files of options. `figures` are those of the
    check in bytes, a figure of a row as "row.figure"; none of an unsupported series.
    """

    releases: tuple[str, ...]
    objects: int
    patches: tuple[str, ...]
    fragments: tuple[str, ...]
    figures: Mapping[str, int]

    def patch_files(self, folder: Path = PATCHES) -> dict[str, bytes]:
        """The content of each patch by its name in a kernel's record, in the order in which they
        are applied: that of their names."""
        files = (folder / f"{patch}.patch" for patch in (*OF_EVERY_SERIES, *self.patches))
        return {file.name: file.read_bytes() for file in sorted(files, key=lambda file: file.name)}


# Article 4's own figures: skmem_r 73,984 and Recv-Q 62,464 at scale 0, 56 KiB queued at scale 1.
# packet_overhead: sk_buff (256) plus its head: a kmalloc of 1,024 until 6.2.
_UNTIL_6_2 = {
    "packet_overhead": 1_280,
    "adv_win_scale_0.skmem_r": 73_984,
    "adv_win_scale_0.recv_q": 62_464,
    "adv_win_scale_1.recv_q": 57_344,
}
# tcp_adv_win_scale has no effect since 6.6 (net/ipv4/tcp_input.c:tcp_measure_rcv_mss takes the
# ratio from a packet), so both rows are equal; measured with the distribution's options. Since 6.3
# the head is net/core/skbuff.c SKB_SMALL_HEAD_SIZE, 704 with the MAX_HEADER of a distribution's
# kernel.
_SINCE_6_6 = {
    "packet_overhead": 960,
    "adv_win_scale_0.skmem_r": 62_208,
    "adv_win_scale_0.recv_q": 58_368,
    "adv_win_scale_1.recv_q": 58_368,
}

SERIES = {
    "5.10": Series(
        releases=("bullseye",),
        objects=645,
        patches=(
            "5.10/fixed-memory",
            "large-registers",
            "5.10/noise-free-random",
            "seccomp-calls",
            "seccomp-mode",
            "5.10/seccomp-pages",
            "5.10/seeded-random",
            "5.10/whole-blocks",
        ),
        fragments=("fragment.config", "fragment-5.10.config"),
        figures=_UNTIL_6_2,
    ),
    "6.1": Series(
        releases=("bookworm",),
        objects=624,
        patches=(
            "fixed-memory",
            "large-registers",
            "seccomp-calls",
            "seccomp-mode",
            "6.1/seccomp-pages",
            "seeded-random",
            "6.1/whole-blocks",
        ),
        fragments=("fragment.config", "fragment-6.1.config"),
        figures=_UNTIL_6_2,
    ),
    "6.12": Series(
        releases=("trixie",),
        objects=653,
        patches=(
            "fixed-memory",
            "large-registers",
            "6.12/seccomp-calls",
            "seccomp-mode",
            "seeded-random",
            "whole-blocks",
        ),
        fragments=("fragment.config",),
        figures=_SINCE_6_6,
    ),
    "7.2": Series(
        releases=("sid", "forky"),
        objects=669,
        patches=(
            "7.2/fixed-memory",
            "7.2/large-registers",
            "7.2/random-of-children",
            "7.2/seccomp-mode",
            "seeded-random",
            "whole-blocks",
        ),
        fragments=("fragment.config",),
        figures=_SINCE_6_6,
    ),
}
"""Each has patches and known figures; the newest is the last."""

_FORMS = (
    ("series", re.compile(r"\d+\.\d+")),
    ("release", re.compile(r"\d+\.\d+\.\d+")),
    ("source", re.compile(r"\d+\.\d+\.\d+-[0-9A-Za-z.+~]+")),
    ("digest", re.compile(r"[0-9a-f]{8,64}")),
)
_CANDIDATE = re.compile(r"\d+\.\d+(\.\d+)?[~-]rc\d+.*")


@dataclass(frozen=True)
class KernelSpec:
    """A kernel as a user names it; `form` is series, release, source or digest."""

    form: str
    text: str

    @property
    def series(self) -> str:
        """The series of the kernel, such as "6.1"; empty for a digest."""
        return "" if self.form == "digest" else ".".join(re.split(r"[.-]", self.text)[:2])

    def matches(self, source: str, digest: str) -> bool:
        """True if a kernel built from this source version, with this digest, matches."""
        if self.form == "digest":
            return digest.startswith(self.text)
        return self.text in (series_of(source), release_of(source), source)


def read_kernel_spec(text: str) -> KernelSpec:
    """Read a kernel's name. BadInput if it is neither a version nor a digest."""
    # An all-digit word without a dot can only be a digest: versions have dots.
    for form, pattern in _FORMS:
        if pattern.fullmatch(text):
            return KernelSpec(form, text)
    if _CANDIDATE.fullmatch(text):
        raise BadInput(
            f"{text} is a release candidate, and these cannot be built. Give a released series: "
            f"{', '.join(SERIES)}"
        )
    raise BadInput(
        f"{text!r} is not a kernel. Give a series (6.1), a source version (6.1.192-2) or "
        "at least 8 hex digits of a digest. `labs kernel list` shows the built kernels"
    )


def is_source_version(text: str) -> bool:
    """Whether `text` is a version of a source package, as a user may write it."""
    return dict(_FORMS)["source"].fullmatch(text) is not None


def check_supported(spec: KernelSpec) -> None:
    """BadInput, naming the supported series, if the series of `spec` is not supported."""
    if spec.form != "digest" and spec.series not in SERIES:
        raise BadInput(
            f"cannot build Linux {spec.text}: there are patches for {', '.join(SERIES)} only. Name "
            "one of these, or give --source TARBALL (CONTRIBUTING.md, Add a kernel)"
        )


def series_like(series: str) -> Series:
    """The facts of a series; of one that is not supported, those of the newest before it, without
    figures."""
    if series in SERIES:
        return SERIES[series]
    before = [name for name in SERIES if age(name) <= age(series)] or [*SERIES][:1]
    return replace(SERIES[before[-1]], figures={})


def release_of(source: str) -> str:
    """The kernel's release in a source version: 6.1.192 in 6.1.192-2."""
    return source.split("-", 1)[0]


def series_of(source: str) -> str:
    """The series of a source version or release: 6.1 of 6.1.192-2."""
    return ".".join(release_of(source).split(".")[:2])


def age(source: str) -> tuple[int, ...]:
    """A key that sorts source versions from old to new: the numbers in them, as integers."""
    return tuple(int(number) for number in re.findall(r"\d+", source))
