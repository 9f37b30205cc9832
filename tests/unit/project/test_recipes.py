"""The recipes of docs/where.md use the project's own scripts and packages, and name what exists."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SYSTEM = (ROOT / "setup" / "system.sh").read_text("utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def listed(name: str) -> set[str]:
    """The packages of a list in setup/system.sh."""
    found = re.search(rf'^{name}="\n(.*?)\n"', SYSTEM, re.DOTALL | re.MULTILINE)
    assert found
    return {line.split()[1] for line in found[1].splitlines()}


def test_binder_installs_the_packages_of_the_set_up() -> None:
    asked = (ROOT / "binder" / "apt.txt").read_text("utf-8").split()
    wanted = listed("NEEDED") | listed("FOR_RELATIVES") | {"python3-venv"}
    assert asked == sorted(wanted)


def test_scripts_that_recipes_call_are_executable() -> None:
    cell = (ROOT / "docs" / "where.md").read_text("utf-8").partition("```python\n")[2]
    devcontainer = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    post_build = ROOT / "binder" / "postBuild"
    assert post_build.stat().st_mode & 0o111
    for text in (
        DOCKERFILE,
        devcontainer["postCreateCommand"],
        post_build.read_text("utf-8"),
        cell.partition("```")[0],
    ):
        named = re.findall(r"setup/[a-z-]+\.sh", text)
        assert "setup/python.sh" in named
        assert all((ROOT / name).stat().st_mode & 0o111 for name in named)
        assert ".venv/bin/labs kernel build" in text


def test_the_dev_container_is_the_image_with_its_ordinary_user() -> None:
    folder = ROOT / ".devcontainer"
    devcontainer = json.loads((folder / "devcontainer.json").read_text("utf-8"))
    assert (folder / devcontainer["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert f"\nUSER {devcontainer['remoteUser']}\n" in DOCKERFILE


def test_the_image_starts_a_notebook_that_exists() -> None:
    command = json.loads(DOCKERFILE.rpartition("\nCMD ")[2])
    assert (ROOT / command[-1]).is_file()


def test_sandbox_refuses_an_unknown_recipe() -> None:
    argv = (ROOT / "setup" / "test-sandbox.sh", "podman")
    done = subprocess.run(argv, capture_output=True, text=True)
    said = "test-sandbox: unknown recipe 'podman'. Allowed: docker devcontainer binder colab\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize("line", [one for one in DOCKERFILE.splitlines() if one])
def test_each_instruction_of_the_image_is_one_line(line: str) -> None:
    """setup/test-sandbox.sh follows the Dockerfile line by line."""
    assert not line.endswith("\\")
    assert re.match(r"# |#$|(FROM|ARG|RUN|WORKDIR|COPY|USER|EXPOSE|CMD) ", line)
