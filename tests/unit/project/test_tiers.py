"""With CI set a tier that should run and cannot is an error; else it is skipped with its reason."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest

ROOT = Path(__file__).parents[3]
on_linux = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="virtual tests need Linux on x86-64",
)


def collected(cache: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Let pytest run the virtual tests of kernels on a machine that has built none."""
    keep = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "LABS_REQUIRE", "LABS_KERNELS") and not name.startswith("PYTEST")
    }
    argv = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *("-p", "no:cacheprovider", "-p", "pytest_timeout"),
        "tests/virtual/test_kernel.py",
    )
    return subprocess.run(
        argv,
        cwd=ROOT,
        # Of its plugins only what the configuration needs: the others take most of the time.
        env={**keep, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "XDG_CACHE_HOME": str(cache), **env},
        capture_output=True,
        text=True,
    )


@on_linux
@pytest.mark.parametrize("env", [{"CI": "true"}, {"LABS_REQUIRE": "unit,virtual"}])
def test_required_tier_that_cannot_run_is_an_error(tmp_path: Path, env: dict[str, str]) -> None:
    done = collected(tmp_path, **env)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
    assert len(said) == 1
    assert "the tier virtual must run here and cannot: no kernel 6.1 is built: " in said[0]
    assert "labs kernel build 6.1" in said[0] and "LABS_REQUIRE=unit" in said[0]


@pytest.mark.parametrize("env", [{}, {"CI": ""}, {"CI": "true", "LABS_REQUIRE": "unit"}])
def test_optional_tier_that_cannot_run_is_skipped(tmp_path: Path, env: dict[str, str]) -> None:
    done = collected(tmp_path, **env)
    assert done.returncode == pytest.ExitCode.OK
    assert "no kernel 6.1 is built" in done.stdout
    assert " passed" not in done.stdout


def test_required_refuses_an_unknown_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABS_REQUIRE", "unit,virtul")
    with pytest.raises(pytest.UsageError, match="no tier: virtul; allowed: unit, virtual"):
        conftest.required()


@pytest.mark.skipif(os.geteuid() != 0, reason="for root alone namespaces are required")
@on_linux
def test_required_under_ci_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABS_REQUIRE", raising=False)
    monkeypatch.setenv("CI", "true")
    assert conftest.required() == ("unit", "virtual", "browser", "namespaces")
    monkeypatch.delenv("CI")
    assert conftest.required() == ()


@pytest.mark.parametrize(("tiers", "refused"), [("unit,virtual", True), ("unit", False)])
def test_check_programs_of_a_required_tier(
    tiers: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABS_REQUIRE", tiers)
    monkeypatch.setenv("PATH", "")
    asked = [("virtual", "strace")]
    if not refused:
        conftest.check_programs(asked)
        return
    with pytest.raises(pytest.UsageError, match="strace is not installed"):
        conftest.check_programs(asked)
