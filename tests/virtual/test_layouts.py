"""Equal inputs give equal bytes on each kernel, whatever the layout of the guest's memory.

The content of a page depends on the order in which programs touch their memory, and so on the host:
the C library chooses its memcpy by the processor, and a file system lists the files of a folder in
its own order. Linux 5.10 as released mixes such addresses into random numbers; the
patch noise-free-random removes that. In `fq-codel-ecn`, clients start one after another, and each
draws a port.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import labs
from labs.drive.kernel import store
from labs.drive.record.disk import owned_folder
from labs.drive.record.seal import RUN, read_seal

PACKAGE = Path(labs.__file__).parent
STUDY = Path(__file__).with_name("one_study.py")
WORDS = ("queues", "only=fq-codel-ecn")
ENVIRONMENT = '"PYTHONHASHSEED": "0",'
# Below the oldest x86-64 processor that has AVX2, whatever this one has.
OTHER_ROUTINES = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX2_Usable,-ERMS,-XSAVEC,-XSAVE"
# On disk and in memory: two file systems, which list folders in different orders.
ON_DISK, IN_MEMORY = "/var/tmp", "/dev/shm"


@pytest.fixture(scope="module")
def code() -> Iterator[Path]:
    with owned_folder("labs-test-", Path(ON_DISK)) as folder:
        shutil.copytree(PACKAGE, folder / "labs", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(STUDY, folder)
        yield folder


def raw_digests(code: Path, work: Path, kernel: str, *prefix: str, **env: str) -> Mapping[str, str]:
    """The SHA-256 of every file of one run but those that state its inputs, with an empty cache."""
    found = store.find(kernel)
    done = subprocess.run(
        (
            *prefix,
            sys.executable,
            code / STUDY.name,
            work / "runs",
            *WORDS,
            f"kernel={found.sha256}",
        ),
        capture_output=True,
        text=True,
        timeout=600,
        env={
            **os.environ,
            "PYTHONPATH": str(code),
            "XDG_CACHE_HOME": str(work / "cache"),
            "LABS_KERNELS": str(found.folder.parent),
            **env,
        },
    )
    assert done.returncode == 0, done.stderr
    (run,) = (work / "runs").glob(f"*/{RUN}")
    return {name: digest for name, digest in read_seal(run.parent).files.items() if name != RUN}


@pytest.mark.parametrize(
    "kernel",
    [
        "6.1",
        *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")),
    ],
)
def test_runs_repeat_wherever_memory_lies(code: Path, kernel: str) -> None:
    digests = {}
    with owned_folder("labs-test-", Path(ON_DISK)) as work:
        digests["on disk"] = raw_digests(code, work / "1", kernel)
        other_code = work / "code"
        shutil.copytree(code, other_code)
        init = other_code / "labs" / "guest" / "programs" / "init.py"
        text = init.read_text()
        assert ENVIRONMENT in text
        init.write_text(
            text.replace(ENVIRONMENT, f'{ENVIRONMENT} "GLIBC_TUNABLES": "{OTHER_ROUTINES}",')
        )
        digests["routines of another processor"] = raw_digests(other_code, work / "2", kernel)
        far = work / "/".join(["a long name of a folder"] * 8)
        cpu = str(max(os.sched_getaffinity(0)))
        digests["another host"] = raw_digests(
            code, far, kernel, "setarch", "-R", "taskset", "-c", cpu,
            LABS_MEMORY_DIR=str(work), PADDING="x" * 5000,
        )  # fmt: skip
    with owned_folder("labs-test-", Path(IN_MEMORY)) as work:
        digests["in memory"] = raw_digests(code, work, kernel)
    assert len(digests["on disk"]) > 20
    differing = {
        layout: sorted(name for name in files if files[name] != digests["on disk"][name])
        for layout, files in digests.items()
    }
    assert not any(differing.values()), differing
