"""What a user may call a kernel, and which version is the newer."""

from __future__ import annotations

import pytest

from labs.drive.kernel.versions import (
    DEFAULT,
    SERIES,
    age,
    check_supported,
    read_kernel_spec,
    release_of,
    series_like,
    series_of,
)
from labs.errors import BadInput

DIGEST = "8a2551657a662ea536092a919cfd7b4f98edf1e7f951632678924ef102f519ac"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("6.1", "series"),
        ("6.1.192", "release"),
        ("6.1.192-2", "source"),
        ("6.12.117-1~deb12u1", "source"),
        (DIGEST[:8], "digest"),
        (DIGEST, "digest"),
        ("61192222", "digest"),
    ],
)
def test_read_kernel_spec_tells_the_forms_apart(text: str, form: str) -> None:
    assert read_kernel_spec(text).form == form


@pytest.mark.parametrize(
    "text",
    [
        "",
        "6",
        "v6.1",
        "latest",
        DIGEST[:7],
        DIGEST + "0",
        DIGEST[:8].upper(),
        "6.1 ",
        "6.1.192-2; rm -rf /",
        "../6.1",
    ],
)
def test_read_kernel_spec_refuses_anything_else(text: str) -> None:
    with pytest.raises(BadInput, match=r"series \(6\.1\).*digest"):
        read_kernel_spec(text)


@pytest.mark.parametrize("text", ["6.1-rc1", "7.3~rc7", "7.3~rc7-1~exp1"])
def test_read_kernel_spec_refuses_a_release_candidate(text: str) -> None:
    with pytest.raises(BadInput, match=r"is a release candidate.*6\.12, 7\.2$"):
        read_kernel_spec(text)


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ("6.1", True),
        ("6.1.192", True),
        ("6.1.192-2", True),
        (DIGEST[:8], True),
        ("6.12", False),
        ("6.1.19", False),
        ("6.1.192-1", False),
        ("00000000", False),
    ],
)
def test_kernel_spec_matches(spec: str, fits: bool) -> None:
    assert read_kernel_spec(spec).matches("6.1.192-2", DIGEST) is fits


def test_series_of_and_release_of_a_source_version() -> None:
    assert series_of("6.12.117-1~deb12u1") == read_kernel_spec("6.12.117-1").series == "6.12"
    assert release_of("6.12.117-1~deb12u1") == "6.12.117"
    assert read_kernel_spec(DIGEST).series == ""


def test_age_sorts_versions_as_numbers() -> None:
    versions = ["6.1.192-2", "6.12.9-1", "6.1.99-1", "6.1.192-1", "5.10.1-1"]
    assert sorted(versions, key=age) == [
        "5.10.1-1",
        "6.1.99-1",
        "6.1.192-1",
        "6.1.192-2",
        "6.12.9-1",
    ]


def test_check_supported_names_the_series_that_are() -> None:
    for text in (*SERIES, "6.1.192", "6.12.94-1", DIGEST):
        check_supported(read_kernel_spec(text))
    with pytest.raises(BadInput) as refused:
        check_supported(read_kernel_spec("5.15.1-1"))
    assert str(refused.value) == (
        "cannot build Linux 5.15.1-1: there are patches for 5.10, 6.1, 6.12, 7.2 only. "
        "Name one of these, or give --source TARBALL (CONTRIBUTING.md, Add a kernel)"
    )


def test_series_are_sorted_and_each_has_a_source_and_figures() -> None:
    assert DEFAULT in SERIES and list(SERIES) == sorted(SERIES, key=age)
    assert all(series.releases and series.figures for series in SERIES.values())


@pytest.mark.parametrize(
    ("series", "like"), [("6.1", "6.1"), ("5.4", "5.10"), ("6.6", "6.1"), ("8.0", "7.2")]
)
def test_series_like_an_unsupported_one_is_the_newest_before_it(series: str, like: str) -> None:
    found = series_like(series)
    assert found.patches == SERIES[like].patches
    assert bool(found.figures) == (series in SERIES)
