"""Small run folders, written by the code that writes the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from labs.drive.record.run_folder import Staging, run_name
from labs.drive.record.seal import canonical, digest, key
from labs.drive.record.stored_files import VERSION
from labs.drive.record.study_file import Planned, StudyFile, write_study

START_NS = 1_790_000_000_000_000_000
SECOND_NS = 1_000_000_000
LINK = {
    "rate_mbit": 1000,
    "delay_ms": 200,
    "loss_pct": 0,
    "jitter_ms": 0,
    "shaped_at": "server",
    "queue_packets": 100_000,
    "port": 8000,
    "burst_bytes": 20480,
}
SYSCTLS = {
    "server": {"net.ipv4.tcp_wmem": "4096 16384 52428800"},
    "client": {"net.ipv4.tcp_rmem": "4096 131072 52428800"},
}
COMMANDS = [
    ("server", "ip", "link", "set", "server0", "up"),
    ("server", "tc", "qdisc", "add", "dev", "server0", "root", "handle", "1:", "htb"),
    ("client", "sysctl", "-w", "net.ipv4.tcp_rmem=4096 131072 52428800"),
    ("server", "nginx", "-c", "/run/server/nginx.conf"),
    ("client", "ip", "link", "set", "client0", "up"),
]
NSTAT = """\
#kernel
TcpOutSegs                      {segments}                 0.0
TcpRetransSegs                  0                  0.0
"""


def inputs(condition: str = "both", /, **changed: Any) -> dict[str, Any]:
    """The inputs of a run; `changed` replaces whole entries."""
    found: dict[str, Any] = {
        "schema": VERSION,
        "lab": "buffers",
        "condition": {
            "name": condition,
            "link": dict(LINK),
            "sysctls": deepcopy(SYSCTLS),
            "settings": {"transfer_mib": 1024, "client": "discard"},
        },
        "testbed": "virtual",
        "kernel": {"version": "6.1.192-2", "digest": digest(b"a kernel")},
        "memory_mib": 4096,
        "seed": 1,
        "tools": {"nginx": digest(b"nginx"), "ip": digest(b"ip")},
        "code": digest(b"code"),
    }
    return {**found, **changed}


def run_json(given: Mapping[str, Any], seconds: float = 11.5) -> dict[str, Any]:
    """The run.json of a run with these inputs."""
    end_ns = START_NS + round(seconds * SECOND_NS)
    kernel = given["kernel"]
    release = kernel["version"].split("-")[0] if kernel else "6.18.0"
    return {
        "schema": VERSION,
        "lab": given["lab"],
        "condition": given["condition"]["name"],
        "key": key(given),
        "inputs": dict(given),
        "kernel": {"release": release, "hz": 250},
        "tools": {"nginx": "nginx version: nginx/1.22.1", "ip": "ip utility, iproute2-6.1.0"},
        "link": {
            "asked": given["condition"]["link"],
            "measured": {"rtt_ms": 200.1, "rate_mbit": 957.2, "loss_pct": 0.0},
            "ok": True,
            "problems": [],
        },
        "commands": [
            {"at_ns": START_NS, "host": host, "argv": list(argv), "exit": 0}
            for host, *argv in COMMANDS
        ],
        "sysctls": {
            host: {"before": dict.fromkeys(values, "4096 131072 6291456"), "after": values}
            for host in ("server", "client")
            for values in (given["condition"]["sysctls"].get(host, {}),)
        },
        "buffers": [
            {"host": "client", "socket": "client", "requested_bytes": None, "granted_bytes": 131072}
        ],
        "marks": [{"at_ns": START_NS, "name": "start"}, {"at_ns": end_ns, "name": "end"}],
        "ended": "complete",
    }


def make_run(
    runs: Path,
    given: Mapping[str, Any] | None = None,
    *,
    seconds: float = 11.5,
    note: bytes = b"",
    host: Mapping[str, object] | None = None,
) -> Path:
    """Write and seal one run; `seconds` changes its results, `note` only its bytes."""
    given = inputs() if given is None else given
    said = run_json(given, seconds)
    end_ns = said["marks"][1]["at_ns"]
    with Staging(runs, run_name(said["lab"], said["condition"], said["key"])) as staging:
        staging.write_json("run.json", said)
        staging.write_json(
            "client/fetch.json",
            {
                "connect_ns": START_NS,
                "request_ns": START_NS + 200_000_000,
                "first_byte_ns": START_NS + 400_000_000,
                "end_ns": end_ns,
                "bytes": 2**30,
                "status": 200,
                "ended": "complete",
                "reads": 16384,
                "timeline": [[START_NS + SECOND_NS, 2**20], [end_ns, 2**30]],
            },
        )
        for name in ("server", "client"):
            staging.write(f"{name}/nstat-before.txt", NSTAT.format(segments=10).encode())
            staging.write(f"{name}/nstat-after.txt", NSTAT.format(segments=23710).encode())
        staging.write("server/nginx.conf", b"worker_processes 1;\n")
        if note:
            staging.write("server/note.txt", note)
        return staging.seal(host if host is not None else {"real_s": 2.1, "pid": 4711})


def reseal(folder: Path) -> Path:
    """Write a new, valid seal of a run folder, as a forger would."""
    files = {
        path.relative_to(folder).as_posix(): digest(path)
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("seal.json", "host.json")
    }
    (folder / "seal.json").write_bytes(
        canonical({"schema": 1, "files": files, "digest": digest(canonical(files))})
    )
    return folder


def make_study(
    runs: Path,
    conditions: tuple[str, ...] = ("default", "both"),
    *,
    seconds: float = 11.5,
    note: bytes = b"",
    **changed: Any,
) -> StudyFile:
    """Write a study and all its runs."""
    every = [inputs(condition, **changed) for condition in conditions]
    for given in every:
        make_run(runs, given, seconds=seconds, note=note)
    return write_study(
        runs,
        "buffers",
        {"size": "small", "seed": 1, "runs": str(runs)},
        [Planned(given["condition"]["name"], key(given)) for given in every],
    )
