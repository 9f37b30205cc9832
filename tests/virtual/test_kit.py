"""Runs of one kit have equal keys and bytes, whatever is installed on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import labs
from labs.catalog import find
from labs.cli.kit import _newest_kernels
from labs.drive.kernel import kit, kit_maker, store
from labs.drive.kernel.programs import libraries
from labs.drive.kernel.programs import programs as installed
from labs.drive.record.seal import read_seal
from labs.errors import Damaged, LabError
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.launch.plan import plan
from labs.read.runs.run import Run
from tests.kept_runs import make
from tests.virtual import one_study

OFF = ("nagle", "only=off", "requests=100")
CHANGED = ("nginx", "ip", "tc", "ss", "nstat", "ab", "touch", "python3")
"""Programs of which another host has other bytes, as it has after an upgrade."""
ANOTHER_HOST = """\
set -e
for path in {paths}; do
    name=$(echo "$path" | tr / _)
    cp -p "$path" "{work}/$name"
    printf x >>"{work}/$name"
    mount --bind "{work}/$name" "$path"
done
mount -t tmpfs tmpfs /usr/share
exec "$@"
"""


def off(runs: Path) -> Run:
    study = make(find("nagle"), Nagle(runs=str(runs), only="off", requests=100))
    return study.runs[0]


@pytest.fixture
def new_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes this process one of a new user, with this machine's kernels."""
    monkeypatch.setenv("LABS_KERNELS", str(store.find("6.1").folder.parent))
    return lambda name: monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))


def test_a_kit_for_other_machines_gives_the_same_runs_without_their_programs(
    tmp_path: Path, new_user: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    new_user("maker")
    packed = tmp_path / "kit.tar.xz"
    kernels = [kernel for kernel in _newest_kernels() if kernel.version.startswith("6.1.")]
    made = kit_maker.make(kernels=kernels, out=packed, tell=lambda line: None)
    assert packed.stat().st_size < 40 << 20
    assert set(made.manifest.packages) >= {"nginx", "iproute2", "tcpdump", "apache2-utils"}
    here = off(tmp_path / "here")

    new_user("user")
    monkeypatch.delenv("LABS_KERNELS")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(kit_maker, "make", None)
    assert kit.use(packed).digest == made.digest
    (planned,) = plan(find("nagle"), Nagle(runs=str(tmp_path), only="off", requests=100))
    assert planned.key == here.key
    assert planned.inputs["tools"] == {"kit": made.root_digest}


def test_a_program_that_was_changed_in_the_cache_is_noticed_before_a_run(
    tmp_path: Path, new_user: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    new_user("user")
    kit_maker.ready().programs(["nginx"])["nginx"].write_bytes(b"another")
    assert one_study.main([str(tmp_path / "runs"), *OFF]) == Damaged.exit_code
    assert "labs kit make" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "runs").is_dir() or not list((tmp_path / "runs").glob("nagle-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
@pytest.mark.program("unshare")
def test_runs_before_and_after_an_upgrade_of_the_host_are_equal(
    tmp_path: Path, new_user: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a library that every program of the host loads, and in another environment."""
    new_user("user")
    monkeypatch.setenv("PYTHONPATH", str(Path(labs.__file__).parents[1]))
    programs = installed(CHANGED)
    loaded = libraries(programs.values())
    paths = [path.resolve() for path in programs.values()]
    paths += [path.resolve() for name, path in loaded.items() if name.startswith("libpcre2-8")]
    script = ANOTHER_HOST.format(work=tmp_path, paths=" ".join(map(str, paths)))
    study = (sys.executable, one_study.__file__)
    lines, inputs = [], []
    for name, prefix, more in (
        ("before", (), {}),
        (
            "after",
            ("unshare", "--mount", "sh", "-c", script, "sh", "setarch", "-R"),
            {
                "TZ": "Asia/Kathmandu",
                "LC_ALL": "C.UTF-8",
                "LD_PRELOAD": str(loaded["libm.so.6"]),
                "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
                "PYTHONHASHSEED": "7",
            },
        ),
    ):
        done = subprocess.run(
            (*prefix, *study, str(tmp_path / name), *OFF),
            capture_output=True,
            text=True,
            env={**os.environ, **more},
        )
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout)
        (run,) = (tmp_path / name).glob("nagle-*")
        inputs.append(read_seal(run).files)
    assert lines[0] == lines[1]
    assert inputs[0] == inputs[1] and len(inputs[0]) > 10


def test_a_run_that_needs_what_the_kit_lacks_is_refused(
    tmp_path: Path, new_user: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    new_user("user")
    made = kit_maker.ready()
    monkeypatch.delitem(made.manifest.programs, "ab")
    monkeypatch.setattr(kit, "in_use", lambda: made)
    with pytest.raises(LabError, match=r"lacks ab\b.*labs kit make"):
        plan(find("nagle"), Nagle(runs=str(tmp_path), only="off"))
