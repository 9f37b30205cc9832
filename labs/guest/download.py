"""HTTP on the two hosts: nginx on the server, and a client that fetches a file once."""

from __future__ import annotations

from labs.errors import RunFailed
from labs.guest.bench import FETCH, Bench
from labs.guest.testbed.contract import Process

_CONFIG = """\
daemon off;
master_process off;
worker_processes 1;
error_log stderr;
pid {folder}/nginx.pid;
events {{ worker_connections {connections}; }}
http {{
{directives}
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {address}:{port}{sndbuf};
        root {folder}/www;
    }}
}}
"""
DIRECTIVES = ("access_log off", "sendfile on", "tcp_nopush on")


def serve_nginx(
    bench: Bench,
    port: int,
    directives: tuple[str, ...],
    *,
    connections: int,
    sndbuf_bytes: int | None = None,
) -> Process:
    """Serve the folder www by one nginx process in the foreground; its configuration is stored.

    `directives` are lines of the http block. `sndbuf_bytes` is the send buffer that nginx requests
    with setsockopt; None requests none.
    """
    server = bench.server
    path = bench.path(server, "nginx.conf")
    server.write(
        path,
        _CONFIG.format(
            folder=server.folder,
            address=server.address,
            port=port,
            connections=connections,
            sndbuf=f" sndbuf={sndbuf_bytes}" if sndbuf_bytes else "",
            directives="\n".join(f"    {line};" for line in directives),
        ).encode(),
    )
    bench.keep(server, path, "nginx.conf")
    return bench.serve(
        server, ("nginx", "-p", str(server.folder), "-c", path, "-e", "stderr"), port, "nginx.txt"
    )


def serve_file(
    bench: Bench, size_bytes: int, port: int, *, sndbuf_bytes: int | None = None
) -> Process:
    """Serve a sparse file by nginx; its date is fixed, because Last-Modified is on the wire.

    `sndbuf_bytes` is the send buffer that nginx requests with setsockopt; None requests none.
    """
    server = bench.server
    file = bench.path(server, "www/bigfile")
    server.write(file, b"")
    server.run(("truncate", "-s", str(size_bytes), file))
    server.run(("touch", "-d", "2020-04-13T14:01:33Z", file))
    return serve_nginx(bench, port, DIRECTIVES, connections=64, sndbuf_bytes=sndbuf_bytes)


def fetch_and_discard(
    bench: Bench,
    *,
    limit_s: float,
    read_bytes: int = 65_536,
    rcvbuf_bytes: int | None = None,
    pause_ms: int | None = None,
) -> None:
    """Fetch the file with `fetch.py`, which discards the bytes inside the kernel.

    `rcvbuf_bytes` is the receive buffer that it requests with setsockopt; None requests none.
    With `pause_ms` it stops reading for that long after every 500 ms of reading.
    """
    client = bench.client
    out = bench.path(client, "fetch.json")
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
            str(read_bytes),
            "--limit-s",
            str(float(limit_s)),
            "--out",
            out,
            *(("--rcvbuf", str(rcvbuf_bytes)) if rcvbuf_bytes else ()),
            *(("--pause-ms", str(pause_ms)) if pause_ms else ()),
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


def fetch_with_wget(bench: Bench, *, limit_s: float) -> None:
    """Fetch the file with wget, which is stopped at the limit."""
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
