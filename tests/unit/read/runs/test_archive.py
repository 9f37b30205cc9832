"""Packed runs: the same bytes wherever they are packed, and only runs come out again."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

import labs
from labs.drive.record.study_file import Planned, write_study
from labs.errors import BadInput, Damaged
from labs.read.runs import archive, packed_limits
from labs.read.runs.archive import AUDIT, pack, pack_contents, run_folders, unpacked
from labs.read.runs.listing import index
from labs.read.runs.run import open_run
from tests.run_folders import inputs, make_run, make_study

ROOT = Path(__file__).parents[4]


def members(packed: Path) -> list[str]:
    with tarfile.open(packed) as file:
        return file.getnames()


@pytest.mark.parametrize("ending", [".tar.gz", ".tgz", ".tar.xz"])
def test_pack_is_the_same_bytes_anywhere(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        make_study(tmp_path / name)
    for path in (tmp_path / "b").rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    a = pack(tmp_path / "a", tmp_path / f"1{ending}")
    b = pack(tmp_path / "b", tmp_path / f"2{ending}")
    assert a.path.read_bytes() == b.path.read_bytes()
    assert (a.sha256, a.size_bytes, a.runs) == (b.sha256, b.path.stat().st_size, 2)


def test_pack_keeps_of_host_json_only_the_audit(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", host={"started": "now", AUDIT: {"here": {"schema": 1}}})
    packed = pack(run, tmp_path / "run.tar.gz").path
    (opened,) = run_folders(unpacked(packed))
    assert json.loads((opened / "host.json").read_text()) == {AUDIT: {"here": {"schema": 1}}}
    assert open_run(opened).digest == open_run(run).digest


def test_pack_of_a_run_a_study_and_a_folder(tmp_path: Path) -> None:
    study = make_study(tmp_path / "runs")
    make_run(tmp_path / "runs", inputs("unshaped"))
    (tmp_path / "runs/DATASETS.md").write_bytes(b"not part of it")
    one = pack(study.folders()[0], tmp_path / "run.tar.gz")
    some = pack(tmp_path / "runs/studies/buffers.json", tmp_path / "study.tar.gz")
    every = pack(tmp_path / "runs", tmp_path / "runs.tar.gz")
    hosts = pack(tmp_path / "runs", tmp_path / "hosts.tar.gz", with_host=True)
    assert [packed.runs for packed in (one, some, every, hosts)] == [1, 2, 3, 3]
    names = {packed.path.name: members(packed.path) for packed in (some, hosts)}
    assert names["study.tar.gz"] == sorted(names["study.tar.gz"])
    assert {name for name in names["study.tar.gz"] if name.startswith("studies")} == {
        f"studies/{study.name}.json",
        "studies/buffers.json",
    }
    assert not any(name.endswith("host.json") for name in names["study.tar.gz"])
    assert sum(name.endswith("/host.json") for name in names["hosts.tar.gz"]) == 3
    with tarfile.open(every.path) as parcel:
        assert {
            (member.mode, member.uid, member.gid, member.uname, member.gname, member.mtime)
            for member in parcel
        } == {(0o644, 0, 0, "", "", 0)}


def test_open_run_of_a_packed_run(tmp_path: Path, temporary: Path) -> None:
    folder = make_run(tmp_path / "runs")
    for ending in (".tar.gz", ".tar.xz"):
        packed = pack(folder, tmp_path / f"run{ending}").path
        run = open_run(packed)
        assert run.digest == open_run(folder).digest and run.fetch() == open_run(folder).fetch()
        assert open_run(packed).path == run.path  # unpacked once
    assert len(list(temporary.iterdir())) == 2


def test_unpacked_folder_is_listed_and_compared(tmp_path: Path, temporary: Path) -> None:
    study = make_study(tmp_path / "runs")
    packed = pack(tmp_path / "runs", tmp_path / "runs.tar.gz").path
    assert [entry.name for entry in index(packed)] == [
        entry.name for entry in index(tmp_path / "runs")
    ]
    assert labs.runs.compare(packed, study.path).grade == "identical"
    with pytest.raises(BadInput, match="holds 2 runs"):
        open_run(packed)
    with pytest.raises(BadInput, match="is already packed"):
        pack(packed, tmp_path / "again.tar.gz")


def test_unpacked_reads_what_tar_packed(tmp_path: Path, temporary: Path) -> None:
    make_study(tmp_path / "some/runs")
    subprocess.run(
        ["tar", "-C", str(tmp_path), "-czf", str(tmp_path / "x.tgz"), "some"], check=True
    )
    assert labs.runs.compare(tmp_path / "x.tgz", tmp_path / "some/runs").grade == "identical"
    with pytest.raises(FileNotFoundError):
        unpacked(tmp_path / "nothing.tgz")


def test_pack_refuses_what_holds_no_whole_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs")
    planned = write_study(tmp_path / "runs", "buffers", {}, [Planned("both", "0" * 64)])
    (tmp_path / "empty").mkdir()
    out = tmp_path / "out.tar.gz"
    for what, said in (
        (planned.path, "is not complete: buffers-both-000000000000 is missing"),
        (tmp_path / "empty", "contains no runs"),
        (tmp_path / "nothing", "not a folder of runs"),
    ):
        with pytest.raises(BadInput, match=said):
            pack(what, out)
    with pytest.raises(BadInput, match="must end in"):
        pack(run, tmp_path / "out.zip")
    with pytest.raises(BadInput, match="is inside a run"):
        pack(run, run / "server" / "out.tar.gz")
    (run / "server/nginx.conf").write_bytes(b"")
    for what in (run, tmp_path / "runs"):
        with pytest.raises(Damaged, match=r"server/nginx\.conf was changed"):
            pack(what, out)
    assert not out.exists() and not list(tmp_path.glob(".new-*"))


def test_pack_keeps_the_old_file_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "runs")
    out = pack(run, tmp_path / "run.tar.gz").path
    before = out.read_bytes()

    def no_room(found: object, stream: io.BytesIO) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "_write", no_room)
    with pytest.raises(Exception, match="no room is left on the disk"):
        pack(run, out)
    assert out.read_bytes() == before and not list(tmp_path.glob(".new-*"))


@pytest.mark.parametrize("cut", [0, 10, 200, -9])
@pytest.mark.parametrize("ending", [".tar.gz", ".tar.xz"])
def test_unpacked_refuses_a_cut_file(
    tmp_path: Path, temporary: Path, ending: str, cut: int
) -> None:
    packed = pack(make_run(tmp_path / "runs"), tmp_path / f"run{ending}").path
    packed.write_bytes(packed.read_bytes()[:cut])
    with pytest.raises(Damaged, match="cannot be unpacked") as caught:
        open_run(packed)
    assert "\n" not in str(caught.value)


def test_open_run_refuses_changed_bytes_in_a_packed_run(tmp_path: Path, temporary: Path) -> None:
    packed = pack(make_run(tmp_path / "runs"), tmp_path / "run.tar.gz").path
    inside = gzip.decompress(packed.read_bytes())
    packed.write_bytes(gzip.compress(inside.replace(b"worker_processes 1", b"worker_processes 2")))
    with pytest.raises(Damaged, match=r"server/nginx\.conf was changed"):
        open_run(packed)


def parcel(path: Path, *members: tuple[str, bytes | None, bytes]) -> Path:
    """A tar file of (name, type or None for a plain file, content or target)."""
    with tarfile.open(path, "w:gz") as file:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            if kind is None:
                member.size = len(content)
            else:
                member.type, member.linkname = kind, content.decode()
            file.addfile(member, io.BytesIO(content) if kind is None else None)
    return path


@pytest.mark.parametrize(
    "member",
    [
        ("/etc/x", None, b"x"),
        ("../x", None, b"x"),
        ("run/../../x", None, b"x"),
        ("..", None, b"x"),
        ("run/x", tarfile.SYMTYPE, b"/etc/passwd"),
        ("run/x", tarfile.LNKTYPE, b"run/run.json"),
        ("run/x", tarfile.FIFOTYPE, b""),
        ("run/x", tarfile.CHRTYPE, b""),
        ("../x", tarfile.DIRTYPE, b""),
        ("run/" + "x" * 300, None, b"x"),
        ("run/" + "é" * 200, None, b"x"),
        ("x/" * 20 + "x", None, b"x"),
        ("x/" * 20, tarfile.DIRTYPE, b""),
        ("/".join("x" * 100 for _ in range(12)), None, b"x"),
        ("C:x", None, b"x"),
        ("run/..\\x", None, b"x"),
        ("run/\x1b[2Jx", None, b"x"),
        ("run/\u202ex", None, b"x"),
        ("run/\udcffx", None, b"x"),
    ],
)
def test_unpacked_takes_plain_files_inside_alone(
    tmp_path: Path, temporary: Path, member: tuple[str, bytes | None, bytes]
) -> None:
    packed = parcel(tmp_path / "x.tgz", ("run/run.json", None, b"{}"), member)
    with pytest.raises(Damaged, match="Allowed: regular files with short names inside one folder"):
        open_run(packed)
    assert not list(temporary.iterdir())


def test_unpacked_refuses_double_names_and_other_content(tmp_path: Path, temporary: Path) -> None:
    twice = parcel(tmp_path / "a.tgz", ("run/x", None, b"1"), ("run/x", None, b"2"))
    inside = parcel(tmp_path / "b.tgz", ("run/x", None, b"1"), ("run/x/y", None, b"2"))
    for packed in (twice, inside):
        with pytest.raises(Damaged, match="twice"):
            open_run(packed)
    for names in (["x"], ["a/x", "b/x"], []):
        packed = parcel(tmp_path / f"{len(names)}.tgz", *((name, None, b"") for name in names))
        with pytest.raises(BadInput, match="contains no run"):
            open_run(packed)


@pytest.mark.parametrize("form", ["gnu", "pax", "oldgnu"])
def test_unpacked_refuses_a_sparse_member(tmp_path: Path, temporary: Path, form: str) -> None:
    sparse = tmp_path / "run/sparse"
    sparse.parent.mkdir()
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    packed = tmp_path / "x.tgz"
    subprocess.run(
        ["tar", "-C", str(tmp_path), "-S", f"--format={form}", "-czf", str(packed), "run"],
        check=True,
    )
    assert packed.stat().st_size < 1000
    with pytest.raises(Damaged):
        unpacked(packed)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("ending", [".tar.gz", ".tar.xz"])
@pytest.mark.parametrize("where", ["in a member", "behind the members"])
def test_unpacked_refuses_what_grows_too_much(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, ending: str, where: str
) -> None:
    monkeypatch.setattr(packed_limits, "ALWAYS_ALLOWED_BYTES", 1 << 20)
    zeros = bytes(20 << 20)
    members = [("run/run.json", None, zeros if where == "in a member" else b"{}")]
    plain = gzip.decompress(parcel(tmp_path / "x.tgz", *members).read_bytes())
    plain += b"" if where == "in a member" else zeros
    packed = tmp_path / f"bomb{ending}"
    packed.write_bytes((gzip if ending == ".tar.gz" else lzma).compress(plain))
    with pytest.raises(Damaged, match="exceeds the limits of packed files"):
        unpacked(packed)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("stages", ["padded", "packed twice"])
def test_unpacked_allows_what_the_outermost_file_does(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, stages: str
) -> None:
    """Zeros between streams are no content: they allow none, and shrink to nothing in a zip."""
    monkeypatch.setattr(packed_limits, "ALWAYS_ALLOWED_BYTES", 1 << 20)
    members = [("run/run.json", None, bytes(20 << 20))]
    plain = gzip.decompress(parcel(tmp_path / "x.tgz", *members).read_bytes())
    packed = tmp_path / archive.BUNDLED
    packed.write_bytes(lzma.compress(plain, preset=0) + bytes(4 << 20))
    if stages == "packed twice":
        with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as outer:
            outer.write(packed, packed.name)
        packed = tmp_path / "x.zip"
        assert packed.stat().st_size < 10_000
    with pytest.raises(Damaged, match="exceeds the limits of packed files"):
        unpacked(packed)


def test_unpacked_refuses_many_members(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study(tmp_path / "runs")
    packed = pack(tmp_path / "runs", tmp_path / "x.tgz").path
    monkeypatch.setattr(packed_limits, "MOST_MEMBERS", 10)
    with pytest.raises(Damaged):
        unpacked(packed)
    with pytest.raises(BadInput, match="too much for one packed file"):
        pack(tmp_path / "runs", tmp_path / "y.tgz")
    assert not list(temporary.iterdir()) and not (tmp_path / "y.tgz").exists()


def test_unpacked_refuses_a_header_that_fills_memory(tmp_path: Path, temporary: Path) -> None:
    """tarfile reads the content of such a header into memory as a whole."""
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        header = tarfile.TarInfo("x")
        header.type, header.size = kind, 1 << 32
        packed = tmp_path / f"{kind.decode()}.tgz"
        packed.write_bytes(gzip.compress(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
        with pytest.raises(Damaged, match="cannot be unpacked"):
            unpacked(packed)


def test_unpacked_refuses_xz_that_needs_much_memory(tmp_path: Path, temporary: Path) -> None:
    """The byte that says how large a dictionary is: block header, properties of LZMA2 (xz file
    format 1.2.1, 3.1 and 5.3.1); 38 is 2 GiB."""
    packed = pack(make_run(tmp_path / "runs"), tmp_path / "run.tar.xz").path
    content = bytearray(packed.read_bytes())
    end = 12 + (content[12] + 1) * 4
    assert content[14:16] == b"\x21\x01"
    content[16] = 38
    content[end - 4 : end] = zlib.crc32(content[12 : end - 4]).to_bytes(4, "little")
    packed.write_bytes(content)
    with pytest.raises(Damaged, match="cannot be unpacked"):
        unpacked(packed)


def test_unpacked_reads_xz_of_several_streams(tmp_path: Path, temporary: Path) -> None:
    folder = make_run(tmp_path / "runs")
    plain = lzma.decompress(pack(folder, tmp_path / "run.tar.xz").path.read_bytes())
    parts = (lzma.compress(plain[:700]), bytes(8), lzma.compress(plain[700:]), bytes(4))
    (tmp_path / "two.tar.xz").write_bytes(b"".join(parts))
    assert open_run(tmp_path / "two.tar.xz").digest == open_run(folder).digest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_unpacked_leaves_nothing_half_written(
    tmp_path: Path, temporary: Path, number: signal.Signals
) -> None:
    packed = pack(make_run(tmp_path / "runs"), tmp_path / "run.tar.gz").path
    program = (
        "import os, shutil, signal, sys, time\nfrom labs.cli.__main__ import main\n"
        # Whoever started the tests may ignore it, as nohup does.
        "signal.signal(int(sys.argv[2]), signal.SIG_DFL)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def half(source, out):\n"
        "    out.write(b'half'); out.flush()\n"
        "    os.kill(os.getpid(), int(sys.argv[2])); time.sleep(60)\n"
        "shutil.copyfileobj = half\n"
        "sys.exit(main(['runs', 'list', sys.argv[1]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(packed), str(int(number))],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        timeout=50,
    )
    assert done.returncode == 128 + number
    assert not list(temporary.iterdir())


def test_unpacked_folder_is_removed_with_its_process(tmp_path: Path, temporary: Path) -> None:
    packed = pack(make_run(tmp_path / "runs"), tmp_path / "run.tar.gz").path
    program = (
        "import os, signal, sys\nfrom labs.read.runs.run import open_run\n"
        "print(open_run(sys.argv[1]).path, flush=True)\n"
        "if sys.argv[2:]: os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    def run(*args: str) -> Path:
        done = subprocess.run(
            [sys.executable, "-c", program, str(packed), *args],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
        )
        return Path(done.stdout.decode().strip())

    assert not run().exists() and not list(temporary.iterdir())
    killed = run("killed")
    assert (killed / "run.json").exists() and len(list(temporary.iterdir())) == 1
    alive = open_run(packed).path  # clears what the killed process left
    assert not killed.exists() and len(list(temporary.iterdir())) == 1
    run()
    assert (alive / "run.json").exists() and len(list(temporary.iterdir())) == 1
    shutil.rmtree(temporary)


def test_pack_refuses_names_that_could_not_be_unpacked(tmp_path: Path) -> None:
    for name in ("run/C:x", "run/\n"):
        with pytest.raises(BadInput):
            pack_contents({name: b""}, tmp_path / "x.tgz")
    assert not list(tmp_path.iterdir())
