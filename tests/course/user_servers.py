"""A JupyterHub with two users of the machine, and code that runs in their kernels."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import websocket

from labs.drive.kernel import store

STARTS_S, SPAWNS_S, ENDS_S = 900, 900, 120
CONFIGURATION = """
c.JupyterHub.bind_url = "http://127.0.0.1:{ports[0]}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{ports[1]}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{ports[2]}"
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie"
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allowed_users = {users!r}
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.LocalProcessSpawner.start_timeout = c.LocalProcessSpawner.http_timeout = {spawns}
c.Spawner.environment = {{"LABS_KERNELS": "{kernels}", "LABS_JOBS": "1"}}
c.JupyterHub.services = [{{"name": "test", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [
    {{"name": "test", "scopes": ["admin:users", "admin:servers", "tokens"], "services": ["test"]}}
]
"""


@dataclass(frozen=True)
class Refused:
    """An answer of a server that is not a success."""

    status: int


@dataclass
class Hub:
    """A hub that is running; `token` may manage its users, `kernels` is the store for all."""

    address: str
    token: str
    kernels: Path
    users: tuple[str, ...]

    def api(self, method: str, path: str, token: str = "", body: object = None) -> Any:
        """What the hub, or a user's server below /user/, answers; Refused for a refusal."""
        request = urllib.request.Request(
            f"{self.address}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {token or self.token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=SPAWNS_S) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            return Refused(error.code)

    def started(self, user: str) -> User:
        """The server of a user, with a kernel and a token of the user's own."""
        self.api("POST", f"/hub/api/users/{user}")
        token = self.api("POST", f"/hub/api/users/{user}/tokens", body={"note": "test"})["token"]
        self.api("POST", f"/hub/api/users/{user}/server")
        until = time.monotonic() + SPAWNS_S
        while not self.api("GET", f"/hub/api/users/{user}")["servers"].get("", {}).get("ready"):
            assert time.monotonic() < until, f"the server of {user} did not start"
            time.sleep(1)
        kernel = self.api("POST", f"/user/{user}/api/kernels", token, {"name": "python3"})
        return User(self, user, token, kernel["id"])


@dataclass
class User:
    """A user whose server and kernel are running."""

    hub: Hub
    name: str
    token: str
    kernel: str

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.name).pw_uid

    @property
    def home(self) -> Path:
        return Path(pwd.getpwnam(self.name).pw_dir)

    def runs(self, code: str, timeout_s: float = 600) -> str:
        """What code prints in the user's kernel, with the error if it ends with one."""
        address = self.hub.address.replace("http", "ws", 1)
        socket = websocket.create_connection(
            f"{address}/user/{self.name}/api/kernels/{self.kernel}/channels",
            header=[f"Authorization: token {self.token}"],
            timeout=timeout_s,
        )
        sent = uuid.uuid4().hex
        header = {"msg_id": sent, "msg_type": "execute_request", "session": sent, "version": "5.3"}
        header |= {"username": self.name, "date": ""}
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        socket.send(json.dumps({**message, "channel": "shell", "buffers": []}))
        printed = ""
        try:
            while True:
                got = json.loads(socket.recv())
                if got["parent_header"].get("msg_id") != sent:
                    continue
                if got["msg_type"] == "stream":
                    printed += got["content"]["text"]
                elif got["msg_type"] == "error":
                    printed += f"{got['content']['ename']}: {got['content']['evalue']}"
                elif got["content"].get("execution_state") == "idle":
                    return printed
        finally:
            socket.close()


def processes_of(uid: int) -> list[int]:
    """The processes of a user of this machine."""
    pids = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                pids.append(int(entry.name))
        except OSError:
            continue
    return pids


@contextmanager
def users(folder: Path, *names: str) -> Iterator[tuple[str, ...]]:
    """Users of this machine with homes in a folder; their processes end with them."""
    made: list[str] = []
    try:
        for name in names:
            argv = ["useradd", "--create-home", "--base-dir", str(folder), "--shell", "/bin/bash"]
            closed = ["--key", "HOME_MODE=0700"]  # Debian's default is open to all
            subprocess.run([*argv, *closed, name], check=True, capture_output=True)
            made.append(name)
        yield tuple(made)
    finally:
        for name in made:
            for pid in processes_of(pwd.getpwnam(name).pw_uid):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.5)
            subprocess.run(["userdel", "--remove", name], check=False, capture_output=True)


@contextmanager
def hub() -> Iterator[Hub]:
    """A hub with two new users and one store of kernels, which only root can change."""
    folder = Path(tempfile.mkdtemp(prefix="labs-hub-"))
    folder.chmod(0o755)
    kernels, private = folder / "kernels", folder / "private"
    private.mkdir(mode=0o700)
    built = store.find("6.1").folder
    shutil.copytree(built, kernels / built.name, symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", str(kernels)], check=True)
    number = secrets.randbelow(9000) + 1000
    try:
        with users(folder, f"lab-ada-{number}", f"lab-bob-{number}") as names:
            yield from _running(folder, private, kernels, names)
            until = time.monotonic() + ENDS_S
            while any(processes_of(pwd.getpwnam(name).pw_uid) for name in names):
                assert time.monotonic() < until, "processes of the users outlive the hub"
                time.sleep(0.5)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _running(folder: Path, private: Path, kernels: Path, names: tuple[str, ...]) -> Iterator[Hub]:
    token, ports = secrets.token_hex(16), _free_ports(3)
    configuration = private / "jupyterhub_config.py"
    configuration.write_text(
        CONFIGURATION.format(
            ports=ports,
            folder=private,
            users=set(names),
            spawns=SPAWNS_S,
            kernels=kernels,
            token=token,
        )
    )
    argv = [sys.executable, "-m", "jupyterhub", "--config", str(configuration)]
    running = Hub(f"http://127.0.0.1:{ports[0]}", token, kernels, names)
    with (private / "log").open("w") as log:
        process = subprocess.Popen(
            argv, cwd=private, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait_for(f"http://127.0.0.1:{ports[1]}/hub/api/", process, private / "log")
            yield running
        finally:
            process.terminate()  # it ends the servers of its users and the proxy
            try:
                process.wait(ENDS_S)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    _end_proxy(private / "proxy.pid")


def _end_proxy(pid_file: Path) -> None:
    """A hub that is killed leaves its proxy, which has a session of its own."""
    try:
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
    except (OSError, ValueError):
        return


def _free_ports(count: int) -> list[int]:
    import socket

    opened = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in opened]
    for probe in opened:
        probe.close()
    return ports


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + STARTS_S
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(address, timeout=30):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(f"the hub did not start: {log.read_text()[-3000:]}")
