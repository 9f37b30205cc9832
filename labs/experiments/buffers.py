"""Article 1: how socket buffers affect TCP throughput. nginx serves a file, a client fetches it."""

from __future__ import annotations

from labs.errors import RunFailed
from labs.experiments.bench import FETCH, Bench
from labs.experiments.condition import Condition, Setting
from labs.parameters.buffers import Buffers
from labs.testbed.contract import Host, Process
from labs.testbed.link import Link, queue_packets

MIB = 1 << 20
# The article's own link: its commands are kept to the letter, netem's default queue included.
ARTICLE_RATE_MBIT, ARTICLE_DELAY_MS = 1000.0, 200.0

_NGINX = """\
daemon off;
master_process off;
worker_processes 1;
error_log stderr;
pid {folder}/nginx.pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {address}:{port};
        root {folder}/www;
    }}
}}
"""


def conditions(p: Buffers) -> tuple[Condition, ...]:
    """The conditions that parameters ask for, in the article's order."""
    three_times = " ".join([str(round(p.buffer_mib * MIB))] * 3)
    shaped = link(p)
    settings: dict[str, Setting] = {
        "client": p.client, "read_bytes": p.read_bytes, "transfer_bytes": p.transfer_mib * MIB,
        "limit_s": p.limit_s, "sample_ms": 100, "capture": p.capture}
    every = {
        "unshaped": Condition("unshaped", Link(at=p.at), {}, settings),
        "default": Condition("default", shaped, {}, settings),
        "both": Condition("both", shaped, {"server": {"net.ipv4.tcp_wmem": three_times},
                                           "client": {"net.ipv4.tcp_rmem": three_times}}, settings),
    }
    return tuple(every[name] for name in p.chosen(tuple(every)))


def link(p: Buffers) -> Link:
    """The shaped link; the article's own keeps netem's default queue, others get one and a half
    BDP (packets are counted one by one behind a router, so there too)."""
    literal = (p.rate_mbit, p.delay_ms, p.at) == (ARTICLE_RATE_MBIT, ARTICLE_DELAY_MS, "server")
    return Link(rate_mbit=float(p.rate_mbit), delay_ms=float(p.delay_ms),
                loss_pct=float(p.loss_pct), jitter_ms=float(p.jitter_ms), at=p.at,
                queue_packets=None if literal else queue_packets(p.rate_mbit, p.delay_ms))


def tools(condition: Condition) -> tuple[str, ...]:
    """The programs that a condition starts."""
    return ("nginx", "wget") if condition.settings["client"] == "wget" else ("nginx",)


def measure(bench: Bench, condition: Condition) -> None:
    """Serve the file, watch both ends, fetch it once."""
    settings, port = condition.settings, condition.link.port
    server = serve_file(bench, int(str(settings["transfer_bytes"])), port)
    bench.watch(port, int(str(settings["sample_ms"])),
                capture=(bench.client,) if settings["capture"] else ())
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
    config = _NGINX.format(folder=server.folder, address=server.address, port=port)
    path = bench.path(server, "nginx.conf")
    file = bench.path(server, "www/bigfile")
    server.write(path, config.encode())
    server.write(file, b"")
    server.run(("truncate", "-s", str(size_bytes), file))
    server.run(("touch", "-d", "2020-04-13T14:01:33Z", file))
    bench.keep(server, path, "nginx.conf")
    return bench.serve(server, ("nginx", "-p", str(server.folder), "-c", path,
                                "-e", "stderr"), port, "nginx.txt")


def fetch_and_discard(bench: Bench, limit_s: float) -> None:
    """Fetch with our own client, which throws the bytes away inside the kernel."""
    client: Host = bench.client
    out = bench.path(client, "fetch.json")
    process = client.program(FETCH, (
        "--to", bench.server.address, "--port", str(bench.condition.link.port),
        "--path", "/bigfile", "--read-bytes", str(bench.settings["read_bytes"]),
        "--limit-s", str(limit_s), "--out", out), stdout=bench.path(client, "fetch.txt"))
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
    process = client.start(("wget", "--progress=dot:giga", "--tries=1", "-O", "/dev/null",
                            "-o", log, url))
    exit_code = bench.finish(process, limit_s)
    if exit_code is None:
        process.stop()
        bench.ended = "limit"
    bench.keep(client, log, "wget.txt")
