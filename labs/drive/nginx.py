"""nginx on the server: one process in the foreground, its files where it may write."""

from __future__ import annotations

from labs.drive.bench import Bench
from labs.drive.testbed.contract import Process

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


def serve(
    bench: Bench,
    port: int,
    directives: tuple[str, ...],
    *,
    connections: int,
    sndbuf_bytes: int | None = None,
) -> Process:
    """Start nginx on the folder www, and keep its configuration.

    `directives` are lines of the block http; `sndbuf_bytes` is the send buffer that nginx requests
    of setsockopt, None for the kernel's own.
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
