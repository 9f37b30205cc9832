"""What must not stand in the tree: the machine it was written on, and where packages come from."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Written so that this file does not hold what it looks for.
REGISTRIES = [
    re.escape(".".join(parts))
    for parts in (
        ("deb", "debian", "org"),
        ("snapshot", "debian", "org"),
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("conda", "anaconda", "org"),
        ("registry", "npmjs"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
    )
]
# Absolute paths: a guest's root may be the folder root/ of another.
MACHINE = [
    rf"(?<!\w){path}" for path in (r"/home/[a-z]+/", r"/roo[t]/", r"/Users/[a-z]+/", r"/wor[k]/")
]
BIGGEST_FILE_BYTES = 1_000_000
RECORDED_LAB_BYTES = 4_000_000


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git clone")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_tree_names_no_registry_and_no_path_of_a_machine() -> None:
    forbidden = re.compile("|".join(REGISTRIES + MACHINE).encode())
    found = []
    for file in tracked():
        content = file.read_bytes()
        if b"\0" not in content:
            name = file.relative_to(ROOT)
            found += [f"{name}: {hit[0]!r}" for hit in forbidden.finditer(content)]
    assert found == []


def test_tree_has_no_large_file() -> None:
    sizes = {file: file.stat().st_size for file in tracked()}
    data = ROOT / "data"
    assert [
        file
        for file, size in sizes.items()
        if size > (RECORDED_LAB_BYTES if file.parent == data else BIGGEST_FILE_BYTES)
    ] == []


def test_scripts_are_executable_and_parse() -> None:
    scripts = [
        *(ROOT / "setup").glob("*.sh"),
        ROOT / ".ci" / "run",
        *(ROOT / "vagrant").rglob("*.sh"),
        *(ROOT / "vagrant").rglob("sbin/*"),
    ]
    for script in scripts:
        assert script.stat().st_mode & 0o111, script
        subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.parametrize(
    ("release", "user", "says"),
    [
        ("sid", "root", "RELEASE is 'sid'; allowed: bookworm, trixie"),
        ("trixie", "nobody", "AS is 'nobody'; allowed: root, user"),
    ],
)
def test_bare_refuses_an_unknown_release_or_user(release: str, user: str, says: str) -> None:
    done = subprocess.run(
        (ROOT / "setup" / "test-bare.sh", release, user), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"test-bare: {says}\n")


def test_folders_with_code_are_packages() -> None:
    """A folder without __init__.py is imported all the same, but import-linter skips it."""
    for folder in {file.parent for file in tracked() if file.suffix == ".py"}:
        if ROOT / "labs" in (folder, *folder.parents):
            assert (folder / "__init__.py").is_file(), folder


def test_lab_folders_have_an_empty_init() -> None:
    """A run loads the package around its experiment, where only the standard library is."""
    found = list((ROOT / "labs" / "experiments").glob("*/__init__.py"))
    assert len(found) >= 2
    assert [path for path in found if path.read_bytes()] == []
