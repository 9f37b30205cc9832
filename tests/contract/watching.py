"""The samplers that watch both hosts during a run."""

from __future__ import annotations

import signal
from pathlib import Path
from tempfile import TemporaryDirectory

from labs.errors import RunFailed
from labs.guest.bench import SAMPLER_FILES, Bench
from labs.guest.condition import Condition
from labs.guest.testbed.contract import Testbed
from labs.guest.testbed.link import Link
from tests.contract.setting import equal, refused

PORT = 8080


def check_unwatch_copies_the_files_of_both_samplers(testbed: Testbed) -> None:
    with TemporaryDirectory() as folder:
        bench = Bench(testbed, Condition("watched", Link()), Path(folder), print)
        bench.watch(PORT, 100, capture=())
        bench.unwatch()
        for host in (testbed.server, testbed.client):
            found = sorted(path.name for path in Path(folder, host.name).iterdir())
            equal(found, sorted(SAMPLER_FILES))


def check_unwatch_fails_if_a_sampler_was_killed(testbed: Testbed) -> None:
    with TemporaryDirectory() as folder:
        bench = Bench(testbed, Condition("watched", Link()), Path(folder), print)
        bench.watch(PORT, 100, capture=())
        bench._watchers[1][1].signal(signal.SIGKILL)
        with refused(RunFailed, "sampler on client", f"exit code {-signal.SIGKILL}"):
            bench.unwatch()
