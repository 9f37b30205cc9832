"""A download: nginx serves a file, a client fetches it once, both ends are watched."""

from __future__ import annotations

from labs.drive import nginx
from labs.drive.bench import FETCH, Bench
from labs.drive.testbed.contract import Process
from labs.errors import RunFailed

DIRECTIVES = ("access_log off", "sendfile on", "tcp_nopush on")


def download(bench: Bench) -> None:
    """Serve a file, watch both ends, fetch it once, as the condition's settings say."""
    settings, port = bench.settings, bench.condition.link.port
    server = serve_file(bench, int(str(settings["transfer_bytes"])), port)
    bench.watch(
        port,
        int(str(settings["sample_ms"])),
        capture=(bench.client,) if settings["capture"] else (),
    )
    limit_s = float(str(settings["limit_s"]))
    if settings["client"] == "wget":
        fetch_with_wget(bench, limit_s)
    else:
        fetch_and_discard(bench, limit_s)
    bench.unwatch()
    server.stop()


def serve_file(bench: Bench, size_bytes: int, port: int) -> Process:
    """Lay a sparse file of a fixed date (Last-Modified is on the wire) and start nginx."""
    server = bench.server
    requested = bench.settings.get("server_sndbuf_bytes")
    file = bench.path(server, "www/bigfile")
    server.write(file, b"")
    server.run(("truncate", "-s", str(size_bytes), file))
    server.run(("touch", "-d", "2020-04-13T14:01:33Z", file))
    return nginx.serve(
        bench, port, DIRECTIVES, connections=64, options=f" sndbuf={requested}" if requested else ""
    )


def fetch_and_discard(bench: Bench, limit_s: float) -> None:
    """Fetch with our own client, which throws the bytes away inside the kernel."""
    client = bench.client
    out = bench.path(client, "fetch.json")
    requested = bench.settings.get("client_rcvbuf_bytes")
    process = client.program(
        FETCH,
        (
            "--to",
            bench.server.address,
            "--port",
            str(bench.condition.link.port),
            "--path",
            "/bigfile",
            "--read-bytes",
            str(bench.settings["read_bytes"]),
            "--limit-s",
            str(limit_s),
            "--out",
            out,
            *(("--rcvbuf", str(requested)) if requested else ()),
        ),
        stdout=bench.path(client, "fetch.txt"),
    )
    exit_code = bench.finish(process, limit_s + 30)
    process.stop()
    if exit_code != 0:
        raise RunFailed(f"the client failed: {bench.last_word(client, 'fetch.txt')}")
    bench.keep(client, out, "fetch.json")
    if b'"ended": "limit"' in client.read(out):
        bench.ended = "limit"


def fetch_with_wget(bench: Bench, limit_s: float) -> None:
    """Fetch with the article's own client, stopped at the limit."""
    client = bench.client
    log = bench.path(client, "wget.txt")
    url = f"http://{bench.server.address}:{bench.condition.link.port}/bigfile"
    process = client.start(
        (
            "wget",
            "--no-config",
            "--no-proxy",
            "--progress=dot:giga",
            "--tries=1",
            "-O",
            "/dev/null",
            "-o",
            log,
            url,
        )
    )
    exit_code = bench.finish(process, limit_s)
    if exit_code is None:
        process.stop()
        bench.ended = "limit"
    elif exit_code:
        raise RunFailed(
            f"wget ended with exit code {exit_code}: {bench.last_word(client, 'wget.txt')}"
        )
    bench.keep(client, log, "wget.txt")
