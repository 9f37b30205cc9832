"""Names of kernels: what a user may request, and which of two versions is newer.

6.1            a series: its newest version
6.1.192        a release: built from any revision of the source package
6.1.192-2      one version of the source package
3f9a2c41...    a digest, or at least its first 8 digits
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labs.errors import BadInput

DEFAULT = "6.1"
# The series to which the patches apply, and for which the figures of the check are known.
SERIES = ("5.10", "6.1", "6.12", "7.2")

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


def release_of(source: str) -> str:
    """The kernel's release in a source version: 6.1.192 in 6.1.192-2."""
    return source.split("-", 1)[0]


def series_of(source: str) -> str:
    """The series of a source version or release: 6.1 of 6.1.192-2."""
    return ".".join(release_of(source).split(".")[:2])


def age(source: str) -> tuple[int, ...]:
    """A key that sorts source versions from old to new: the numbers in them, as integers."""
    return tuple(int(number) for number in re.findall(r"\d+", source))
