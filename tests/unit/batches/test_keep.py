"""Runs that come back as bytes are verified like those of a stranger before they are kept."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from labs.batches.keep import keep, received
from labs.drive.record.seal import key, read_seal
from labs.errors import BadInput, Damaged, LabError
from labs.guest.condition import from_json
from labs.launch.plan import Planned
from labs.launch.wanted import Exists, Job, Notice, Opened, Performed, Wanted
from labs.read.runs.archive import pack
from labs.read.runs.run import open_run
from tests.run_folders import inputs, make_run, reseal


def packed(what: Path, tmp_path: Path) -> bytes:
    out = tmp_path / "packed.tar.gz"
    pack(what, out, with_host=True, gzip_level=1)
    return out.read_bytes()


def say(notice: Notice) -> None:
    raise AssertionError(notice)  # nobody waits


def job(run: Path, opened: Opened, *, fresh: bool = False) -> Job:
    """A job that asks for this run."""
    asked = dict(open_run(run).inputs)
    condition = from_json(asked["condition"])
    planned = Planned("buffers", "", None, condition, asked, key(asked), {}, {}, None, None, None)
    return Job(planned, opened, Wanted(fresh=fresh))


def test_keep_gives_the_run_of_a_worker_its_name(tmp_path: Path) -> None:
    run, runs = make_run(tmp_path / "worker"), tmp_path / "runs"
    opened = Opened(runs)
    for outcome in (Performed(), Exists()):
        assert keep(packed(run, tmp_path), job(run, opened), say) == outcome
    assert read_seal(runs / run.name) == read_seal(run)
    names = sorted(path.relative_to(run) for path in run.rglob("*"))
    assert (
        sorted(path.relative_to(runs / run.name) for path in (runs / run.name).rglob("*")) == names
    )
    for name in names:
        if (run / name).is_file():
            assert (runs / run.name / name).read_bytes() == (run / name).read_bytes()
    assert [path.name for path in runs.iterdir()] == [run.name]


def test_keep_replaces_a_run_if_it_is_fresh(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    old, new = make_run(runs), make_run(tmp_path / "worker", note=b"new")
    fresh, content = open_run(new), packed(new, tmp_path)
    assert keep(content, job(new, Opened(runs)), say) == Exists()
    assert keep(content, job(new, Opened(runs), fresh=True), say) == Performed()
    assert read_seal(old).digest == fresh.digest


def test_received_refuses_a_changed_run(tmp_path: Path) -> None:
    run, runs = make_run(tmp_path / "worker"), tmp_path / "runs"
    content = packed(run, tmp_path)
    (run / "client" / "fetch.json").write_text("[]")  # no reader accepts it
    reseal(run)
    raw = packed(run, tmp_path)
    for given in (raw, content[:-20], b"", b"x" * 100, changed_member(content)):
        with pytest.raises((Damaged, BadInput)), received(given, runs):
            pass
    assert list(runs.iterdir()) == []


def changed_member(content: bytes) -> bytes:
    """The same packed run with another nginx.conf, under the old seal."""
    plain = gzip.decompress(content)
    assert b"worker_processes 1;\n" in plain
    return gzip.compress(plain.replace(b"worker_processes 1;\n", b"worker_processes 2;\n"))


def test_received_refuses_two_runs(tmp_path: Path) -> None:
    make_run(tmp_path / "worker", inputs("both"))
    make_run(tmp_path / "worker", inputs("wmem"))
    with pytest.raises(Damaged), received(packed(tmp_path / "worker", tmp_path), tmp_path / "runs"):
        pass


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_received_refuses_links_and_devices(tmp_path: Path, kind: bytes) -> None:
    run = make_run(tmp_path / "worker")
    plain = io.BytesIO(gzip.decompress(packed(run, tmp_path)))
    with tarfile.open(fileobj=plain, mode="a") as parcel:
        member = tarfile.TarInfo(f"{run.name}/server/link")
        member.type, member.linkname = kind, "/etc/passwd"
        parcel.addfile(member)
    with pytest.raises(LabError), received(gzip.compress(plain.getvalue()), tmp_path / "runs"):
        pass
    assert list((tmp_path / "runs").iterdir()) == []
