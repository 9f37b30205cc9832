"""Opening a run: refusals in one line, and a real run read as tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labs.drive.record.run_folder import Staging
from labs.errors import BadInput, Damaged
from labs.guest.outcome import Buffer
from labs.guest.testbed.link import Link, LinkReport, Measured
from labs.read.runs.run import Run, RunningKernel, open_run
from tests.run_folders import inputs, make_run, make_study, reseal, run_json

ROOT = Path(__file__).parents[4]
# labs run buffers --only both --transfer-mib 1, packed: 1 MiB over 1000 Mbit/s and 200 ms.
REAL = ROOT / "tests/fixtures/runs/both-1mib.tar.xz"


@pytest.fixture(scope="module")
def real() -> Run:
    return open_run(REAL)


def test_open_run_fields(tmp_path: Path) -> None:
    folder = make_run(tmp_path, inputs("default"))
    run = open_run(str(folder))
    assert (run.lab, run.condition, run.name) == ("buffers", "default", folder.name)
    assert run.inputs == json.loads(json.dumps(inputs("default")))
    assert run.key[:12] in run.name and run.ended == "complete"
    assert run.hosts == ("client", "server") and run.testbed == "virtual"
    assert run.kernel == RunningKernel("6.1.192", 250)
    assert run.link == LinkReport(run.condition_asked.link, Measured(200.1, 957.2, 0.0))
    assert run.link.ok and run.link.asked == Link(
        1000, 200, queue_packets=100_000, port=8000, burst_bytes=20480
    )
    assert run.condition_asked.settings["transfer_mib"] == 1024
    assert run.moments["end"] - run.moments["start"] == 11_500_000_000
    assert run.sysctls["client"]["after"]["net.ipv4.tcp_rmem"] == "4096 131072 52428800"
    assert run.buffers == (Buffer("client", "client", None, 131072),)
    assert run.commands[1].argv[:3] == ("tc", "qdisc", "add")


@pytest.mark.parametrize(
    ("verdict", "problems"),
    [
        ("as asked", ()),
        (
            "not as asked: RTT 3.00 ms, asked 200; rate 9.0 Mbit/s",
            ("RTT 3.00 ms, asked 200", "rate 9.0 Mbit/s"),
        ),
    ],
)
def test_open_run_reads_schema_1(tmp_path: Path, verdict: str, problems: tuple[str, ...]) -> None:
    """Schema 1 had a sentence for the link check, `at` for `shaped_at`, and kept no burst."""
    given = inputs("default")
    old = {
        name: value for name, value in given["condition"]["link"].items() if name != "burst_bytes"
    }
    old["at"] = old.pop("shaped_at")
    given = {**given, "schema": 1, "condition": {**given["condition"], "link": old}}
    folder = make_run(tmp_path, given)
    written = run_json(given)
    link = {"asked": old, "measured": written["link"]["measured"], "verdict": verdict}
    (folder / "run.json").write_text(json.dumps({**written, "schema": 1, "link": link}))
    reseal(folder)
    run = open_run(folder)
    assert (run.link.problems, run.link.verdict) == (problems, verdict)
    assert run.condition_asked.link == Link(
        1000, 200, queue_packets=100_000, port=8000, burst_bytes=20480
    )
    assert run.inputs == inputs("default")


@pytest.mark.parametrize(
    ("down", "expected"),
    [
        ({"rtt_ms": 40.0008, "rate_mbit": 20.0, "loss_pct": None}, Measured(40.0008, 20.0)),
        ({"rtt_ms": 40.0008, "rate_mbit": None, "loss_pct": None}, Measured(40.0008, None)),
        ({"rtt_ms": "long", "rate_mbit": 20.0}, None),
        ({}, None),
    ],
)
def test_measured_is_of_the_path_of_flows(
    tmp_path: Path, down: dict[str, object], expected: Measured | None
) -> None:
    """The link of such a run is its wires: 0.003 ms, where the path has 40."""
    given = inputs()
    given["condition"]["plan"] = {"path": {}}
    folder = make_run(tmp_path, given)
    assert open_run(folder).measured == Measured(200.1, 957.2, 0.0)
    (folder / "path.json").write_text(json.dumps({"down": {"measured": down}}))
    run = open_run(reseal(folder))
    if expected is not None:
        assert run.measured == expected
        assert run.link.measured == Measured(200.1, 957.2, 0.0)
        return
    with pytest.raises(Damaged, match=r"path\.json: it cannot be read"):
        run.measured  # noqa: B018


def test_run_lacks_a_file(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path))
    assert run.capture("client") is None and run.wget() is None
    with pytest.raises(BadInput, match=r"has no server/samples\.bin; it has none named samples"):
        run.samples("server")
    with pytest.raises(BadInput, match=r"has no router/nstat-after\.txt; it has client/nstat-"):
        run.nstat("router", "after")
    with pytest.raises(BadInput, match="'during' is not a moment"):
        run.nstat("server", "during")


def test_commands_text_of_a_small_run(tmp_path: Path) -> None:
    assert (
        open_run(make_run(tmp_path)).commands_text()
        == """\
# on the server
ip link set server0 up
tc qdisc add dev server0 root handle 1: htb
# on the client
sysctl -w 'net.ipv4.tcp_rmem=4096 131072 52428800'
ip link set client0 up"""
    )


@pytest.mark.parametrize(
    ("said", "error", "what"),
    [
        ({"schema": 3}, BadInput, "schema 3, and this version of labs reads schema 1 and 2"),
        ({"ended": "killed"}, Damaged, r"run\.json: ended: 'killed' is not one of"),
        ({"key": "0" * 64}, Damaged, "its key, lab or condition is not that of its inputs"),
        ({"condition": "default"}, Damaged, "its key, lab or condition is not that of its inputs"),
    ],
)
def test_open_run_refuses_wrong_content_under_a_valid_seal(
    tmp_path: Path, said: dict[str, object], error: type[Exception], what: str
) -> None:
    folder = make_run(tmp_path)
    written = run_json(inputs())
    (folder / "run.json").write_text(json.dumps({**written, **said}))
    reseal(folder)
    with pytest.raises(error, match=what) as caught:
        open_run(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_open_run_again_is_the_same_run_while_it_is_as_sealed(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    run = open_run(folder)
    assert open_run(folder) is run
    (folder / "run.json").write_text((folder / "run.json").read_text().replace("200.1", "100.1"))
    with pytest.raises(Damaged, match=r"run\.json was changed after the run was sealed"):
        open_run(folder)
    reseal(folder)
    changed = open_run(folder)
    assert (run.link.measured.rtt_ms, changed.link.measured.rtt_ms) == (200.1, 100.1)


def test_open_run_by_a_relative_name_is_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same name in two folders, with the same content."""
    found = []
    for name in ("a", "b"):
        folder = make_run(tmp_path / name)
        monkeypatch.chdir(folder.parent)
        found.append(open_run(folder.name))
    assert found[0] is not found[1] and found[0].digest == found[1].digest


def test_open_run_refuses_a_changed_run_json(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    text = (folder / "run.json").read_text()
    for changed in (text.replace("200.1", "100.1"), text.replace('"ended": "complete"', ""), "{"):
        (folder / "run.json").write_text(changed)
        with pytest.raises(Damaged, match=r"run\.json was changed after the run was sealed"):
            open_run(folder)
    (folder / "run.json").unlink()
    with pytest.raises(Damaged, match=r"run\.json is missing"):
        open_run(folder)


def test_open_run_refuses_a_seal_without_run_json(tmp_path: Path) -> None:
    with Staging(tmp_path, "x") as staging:
        staging.write("server/ss.txt", b"")
        folder = staging.seal({})
    with pytest.raises(Damaged, match=r"run\.json"):
        open_run(folder)


def test_open_run_refuses_other_folders(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    for path, what in (
        (tmp_path / "nothing", "is not a folder"),
        (study.path, "is not a folder"),
        (tmp_path / "studies", "is not a run"),
        (tmp_path, "contains runs, but is not a run"),
    ):
        with pytest.raises(BadInput, match=what):
            open_run(path)


def test_open_run_verifies_each_time(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    open_run(folder)
    (folder / "server/nginx.conf").write_bytes(b"")
    with pytest.raises(Damaged, match=r"server/nginx\.conf"):
        open_run(folder)


def test_samples_of_a_real_run(real: Run) -> None:
    table = real.samples("server")
    assert list(table.columns[:3]) == ["t_s", "at_ns", "state"]
    seconds = (real.moments["end"] - real.moments["start"]) / 1e9
    assert table["t_s"].between(0, seconds).all() and table["t_s"].is_monotonic_increasing
    assert set(table["local_port"]) == {80}
    assert table["sndbuf_bytes"].max() > 1_000_000


def test_ss_of_a_real_run_agrees_with_its_samples(real: Run) -> None:
    table = real.ss("client")
    assert set(table["mark"]) > {""}
    assert (table["unknown"] == "").all()
    assert table["rcvbuf_bytes"].max() == real.samples("client")["rcvbuf_bytes"].max() == 52428800


def test_nstat_and_tc_of_a_real_run(real: Run) -> None:
    before, after = real.nstat("server", "before"), real.nstat("server", "after")
    delta = real.nstat("server")
    assert delta["TcpOutSegs"] == after["TcpOutSegs"] - before["TcpOutSegs"] > 700
    assert after["TcpExtTCPMemoryPressures"] == 0
    netem = [queue for queue in real.tc("server") if queue.kind == "netem"]
    assert [queue.dropped for queue in netem] == [0] and netem[0].sent_bytes > 1 << 20
    assert real.tc("server", "before") != real.tc("server")


def test_fetch_of_a_real_run(real: Run) -> None:
    fetched = real.fetch()
    assert fetched is not None and fetched["bytes"] == 1 << 20
    assert fetched["timeline"][-1][1] == 1 << 20
    assert real.wget() is None and real.capture("server") is None


def test_commands_text_of_a_real_run(real: Run) -> None:
    said = real.commands_text()
    assert said.startswith("# on the server\nip link set dev lo up\n")
    assert "tc qdisc add dev eth0 parent 1:10 handle 10: netem delay 200ms" in said
    assert "sysctl -w 'net.ipv4.tcp_wmem=52428800 52428800 52428800'" in said
    assert "tcp_rmem" in said.rpartition("# on the client\n")[2]
    assert "nginx" not in said and "show" not in said


def test_open_run_needs_no_file_locks(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['fcntl'] = None\n"  # as where there is no such module
        "from labs.read.runs.run import open_run\n"
        "print(open_run(sys.argv[1]).condition, open_run(sys.argv[2]).condition)\n"
    )
    folder = make_run(tmp_path, inputs("default"))
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), str(REAL)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("default both\n", "")


def test_open_run_needs_no_numpy() -> None:
    program = (
        "import sys, labs.read.runs.compare, labs.read.runs.archive\n"
        "print(sorted({'pandas', 'numpy', 'jsonschema', 'plotly'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
