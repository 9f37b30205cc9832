"""Names of kernels: what a user may ask for, and which of two versions is the newer.

6.1            a series: the newest of it
6.1.192        a release: whatever revision of the source package it was built from
6.1.192-2      one version of the source package
3f9a2c41...    a digest, or at least its first 8 digits
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labs.errors import BadInput

DEFAULT = "6.1"
# The series that the patches fit, and whose figures a build is held to.
SERIES = ("6.1", "6.12")

_FORMS = (
    ("series", re.compile(r"\d+\.\d+")),
    ("release", re.compile(r"\d+\.\d+\.\d+")),
    ("source", re.compile(r"\d+\.\d+\.\d+-[0-9A-Za-z.+~]+")),
    ("digest", re.compile(r"[0-9a-f]{8,64}")),
)


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
        """True if a kernel built from this source version, with this digest, is meant."""
        if self.form == "digest":
            return digest.startswith(self.text)
        return self.text in (series_of(source), release_of(source), source)


def read_kernel_spec(text: str) -> KernelSpec:
    """Read a kernel's name. BadInput if it is neither a version nor a digest."""
    # An all-digit word without a dot can only be a digest: versions have dots.
    for form, pattern in _FORMS:
        if pattern.fullmatch(text):
            return KernelSpec(form, text)
    raise BadInput(
        f"{text!r} is not a kernel: give a series (6.1), a source version (6.1.192-2) or "
        "at least 8 hex digits of a digest; `labs kernel list` shows what is built"
    )


def is_source_version(text: str) -> bool:
    """Whether it is one version of a source package, as a user may name it."""
    return dict(_FORMS)["source"].fullmatch(text) is not None


def check_supported(spec: KernelSpec) -> None:
    """BadInput, naming the series that are, if no patches fit the series of `spec`."""
    if spec.form != "digest" and spec.series not in SERIES:
        raise BadInput(
            f"Linux {spec.text} cannot be built: the patches fit {' and '.join(SERIES)}. "
            f"Run labs kernel build {DEFAULT}"
        )


def release_of(source: str) -> str:
    """The kernel's release in a source version: 6.1.192 in 6.1.192-2."""
    return source.split("-", 1)[0]


def series_of(source: str) -> str:
    """The series of a source version or release: 6.1 of 6.1.192-2."""
    return ".".join(release_of(source).split(".")[:2])


def age(source: str) -> tuple[int, ...]:
    """A key that sorts source versions from old to new: their numbers, as numbers."""
    return tuple(int(number) for number in re.findall(r"\d+", source))
