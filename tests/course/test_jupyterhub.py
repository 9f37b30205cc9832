"""Two users of one JupyterHub: both boot kernels at once from one store, and neither can read the
other's work, stop it, or change what both use."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from labs.drive.record.seal import verify
from tests.course.user_servers import Hub, Refused, User, hub, processes_of

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can add users"),
    pytest.mark.timeout(3600),
]
RUN = """
import json, os, subprocess, sys, threading, time

def perform():
    began = time.time()
    argv = [sys.executable, "-m", "labs.cli", "run", "nagle", "--only", "off", "--into", "runs"]
    done = subprocess.run(argv, cwd="{home}", capture_output=True, text=True)
    with open("{home}/begun", "w") as file:
        json.dump([done.returncode, began, time.time(), done.stderr[-500:]], file)
    os.replace("{home}/begun", "{home}/finished")

threading.Thread(target=perform).start()
"""
RUN_S = 1800
ATTEMPT = """
import os, pathlib
found = {{}}
def attempt(name, act):
    try:
        act()
        found[name] = "done"
    except OSError as error:
        found[name] = type(error).__name__
attempt("list the home", lambda: os.listdir("{home}"))
attempt("read a run", lambda: next(pathlib.Path("{home}/runs").iterdir()))
attempt("change a kernel", lambda: open("{kernel}", "ab"))
attempt("add a kernel", lambda: os.mkdir("{kernels}/mine"))
for pid in {pids}:
    attempt(f"stop {{pid}}", lambda: os.kill(pid, 9))
    attempt(f"environment of {{pid}}", lambda: open(f"/proc/{{pid}}/environ", "rb"))
    attempt(f"memory of {{pid}}", lambda: open(f"/proc/{{pid}}/mem", "rb"))
    attempt(f"files of {{pid}}", lambda: os.listdir(f"/proc/{{pid}}/fd"))
import json
print(json.dumps(found))
"""


DENIED = "PermissionError"
REFUSED = {DENIED, "ProcessLookupError"}
"""A process may have ended by itself in the meantime."""


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[User, User]]:
    with hub() as running, ThreadPoolExecutor() as pool:
        ada, bob = pool.map(running.started, running.users)
        yield ada, bob


def attempts(user: User, on: User, pids: list[int]) -> dict[str, str]:
    """What a user reached of another one's work, by attempt."""
    kernels = on.hub.kernels
    (kernel,) = kernels.glob("*/linux")
    printed = user.runs(ATTEMPT.format(home=on.home, kernel=kernel, kernels=kernels, pids=pids))
    answers: dict[str, str] = json.loads(printed)
    return answers


def test_two_users_run_at_once_and_apart(pair: tuple[User, User]) -> None:
    ada, bob = pair
    for user in pair:
        user.runs(RUN.format(home=user.home))
    until, guests = time.monotonic() + RUN_S, list[int]()
    while not guests and not (bob.home / "finished").exists():
        assert time.monotonic() < until
        time.sleep(0.1)
        guests = [pid for pid in processes_of(bob.uid) if _program(pid).endswith("/linux")]
    outcomes = attempts(ada, bob, processes_of(bob.uid))
    while not all((user.home / "finished").exists() for user in pair):
        assert time.monotonic() < until
        time.sleep(0.5)
    results = [json.loads((user.home / "finished").read_text()) for user in pair]
    assert [result[0] for result in results] == [0, 0], results
    assert guests and "done" not in outcomes.values()
    assert {outcomes[f"stop {pid}"] for pid in guests if f"stop {pid}" in outcomes} <= REFUSED
    assert {outcomes[name] for name in ("list the home", "read a run", "change a kernel")} == {
        DENIED
    }
    (_, began, ended, _), (_, other_began, other_ended, _) = results
    assert began < other_ended and other_began < ended
    runs = [next((user.home / "runs").glob("**/run.json")).parent for user in pair]
    digests = [verify(run) for run in runs]
    assert digests[0] == digests[1]
    assert [run.stat().st_uid for run in runs] == [ada.uid, bob.uid]


def _program(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def test_a_user_cannot_reach_the_others_server(pair: tuple[User, User]) -> None:
    """Neither through the proxy nor through the hub."""
    ada, bob = pair
    hub_of_ada: Hub = ada.hub
    kernels = f"/user/{bob.name}/api/kernels"
    for method, path in (
        ("GET", f"/user/{bob.name}/api/contents"),
        ("GET", kernels),
        ("DELETE", f"{kernels}/{bob.kernel}"),
        ("DELETE", f"/hub/api/users/{bob.name}/server"),
        ("GET", f"/hub/api/users/{bob.name}/tokens"),
    ):
        assert hub_of_ada.api(method, path, ada.token) in (Refused(403), Refused(404)), path
    printed = bob.runs("import labs.drive.kernel.store as s; print(s.find('6.1').folder)")
    assert printed.startswith(str(hub_of_ada.kernels))
