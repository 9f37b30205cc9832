"""The command line: one line for what is wrong, the right exit code, nothing heavy to start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from labs.cli.__main__ import COMMANDS, GROUPS, main
from labs.cli.run import lab_word
from labs.errors import LabError
from labs.read.display.format import terminal_table

ROOT = Path(__file__).resolve().parents[3]
CLI = ROOT / "labs" / "cli"
HEAVY = ("numpy", "pandas", "plotly", "jsonschema", "jsonschema_rs", "scapy", "pyshark", "asyncio")
# Modules of the package that are not commands.
PARTS = {
    "__init__",
    "__main__",
    "command",
    "new_lab",
    "new_flows",
    "run_grid",
    "run_report",
    "claims_draws",
}


def labs(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "labs.cli", *words],
        cwd=folder,
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )


def wrong(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the line of a command that must fail, having printed nothing else."""
    code = main(words)
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    return code, printed.err


def loaded(code: str) -> set[str]:
    """What a fresh interpreter has imported after some lines of Python."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\n' + ' '.join(sys.modules))"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_import_of_labs_loads_nothing_else() -> None:
    modules = loaded("import labs")
    assert not [name for name in modules if name.startswith("labs.")]
    assert not modules & set(HEAVY)


@pytest.mark.parametrize("words", [["--help"], ["new", "mine", "--dry-run"], ["run", "bufers"]])
def test_main_loads_nothing_heavy_for_what_answers_at_once(words: list[str]) -> None:
    modules = loaded(f"from labs.cli.__main__ import main; main({words!r})")
    assert not modules & set(HEAVY)
    if words == ["--help"]:
        assert {name for name in modules if name.startswith("labs.")} == {
            "labs.cli",
            "labs.cli.__main__",
            "labs.errors",
        }


def test_check_loads_nothing_heavy() -> None:
    assert not loaded("import labs; labs.check('buffers', {})") & set(HEAVY)


def test_commands_are_the_modules() -> None:
    there = {path.stem for path in CLI.glob("*.py")} - PARTS
    assert there == set(COMMANDS)
    for name, summary in COMMANDS.items():
        assert import_module(f"labs.cli.{name}").__doc__
        assert summary and len(summary) < 80


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_and_their_verbs_have_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    verbs = getattr(import_module(f"labs.cli.{name}"), "VERBS", {})
    for words in ([name], *([name, verb] for verb in verbs)):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--help"])
        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert text.startswith(f"usage: labs {' '.join(words)}") and ("--json" in text)


def test_main_names_an_address_space_that_is_too_small() -> None:
    """OpenBLAS would end the process with a message of its own; other commands work."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (100 << 20,) * 2)\n"
    code = f"{limited}import sys; from labs.cli.__main__ import main; sys.exit(main(sys.argv[1:]))"

    def done(*words: str) -> tuple[int, str]:
        finished = subprocess.run(
            [sys.executable, "-c", code, *words], cwd=ROOT, text=True, capture_output=True
        )
        return finished.returncode, finished.stderr

    exit_code, error = done("claims")
    assert exit_code == 3 and error.count("\n") == 1
    assert "`ulimit -v` allows 100 MiB of address space" in error
    assert done("new", "mine", "--dry-run") == (0, "")
    assert done("claims", "--help") == (0, "")


def test_version_is_that_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert labs("--version").stdout == f"labs {declared}\n"


def test_help_lists_the_commands() -> None:
    done = labs("--help")
    assert done.returncode == 0 and done.stderr == ""
    _, *groups = re.split(r"^([a-z ]+):$", done.stdout, flags=re.MULTILINE)
    listed = {
        title: dict(re.findall(r"^  (\w+) +(.+)$", lines, re.MULTILINE))
        for title, lines in zip(groups[::2], groups[1::2], strict=True)
    }
    assert listed == GROUPS
    without = labs()
    assert (without.returncode, without.stdout, without.stderr) == (2, "", done.stdout)


def test_help_of_run_has_the_flags_of_the_lab(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "buffers", "--help"])
    text = capsys.readouterr().out
    assert "--rate-mbit NUMBER" in text and "--into" in text and "--dry-run" in text
    assert "near-1024k" in text  # a condition of --size full


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (["rn"], "rn is not a command; did you mean run?"),
        (["run", "buffers", "--jobs", "x"], '--jobs "x" is invalid; allowed: a whole number'),
        (
            ["capture", "stalls", "f", "--min-gap-ms", "y"],
            '--min-gap-ms "y" is invalid; allowed: a number',
        ),
        (
            ["runs", "list", "--zzz"],
            "--zzz is not a flag of labs runs list; allowed: --help, --json",
        ),
        (["zork"], "zork is not a command; allowed: run, "),
        (["run"], "LAB"),
        (["run", "bufers"], 'unknown lab "bufers"; did you mean "buffers"? Available: '),
        (["run", "./nothing.py"], "nothing.py: no such file"),
        (["run", "buffers", "--rate-mbti", "1"], "did you mean --rate-mbit?"),
        (["run", "buffers", "--rate-mbit", "0"], "--rate-mbit 0 is out of range"),
        (["run", "--rate-mbit", "0", "buffers"], "--rate-mbit 0 is out of range"),
        (["run", "buffers", "--jobs", "0"], "--jobs 0 is out of range"),
        (["run", "buffers", "--only", "defalt", "--dry-run"], "did you mean default?"),
        (["run", "buffers", "--testbed", "vm"], "virtual, namespaces, vagrant, recorded"),
        (["run", "buffers", "--kernel", "six"], '--kernel "six" cannot be read'),
        (["new", "mine", "--jsn"], "did you mean --json?"),
        (["run", "queues", "--congestion", "bbr"], "see labs run queues --help. "),
        (["run", "queues", "--congestion", "bbr"], ": labs new mylab --flows"),
        (
            ["batch", "plan.yaml", "--zzz"],
            "--zzz is not a flag of labs batch; allowed: --help, --of, --into",
        ),
        (["doctor", "virtal"], "did you mean virtual?"),
        (
            ["doctor", "now"],
            "now is not a testbed; allowed: virtual, namespaces, vagrant, recorded",
        ),
        (["publish", "x.ipynb", "--out", "p.html"], "x.ipynb does not exist. Name an existing "),
        (["verify", str(ROOT / "README.md")], "README.md contains no runs. Name a bundle, a run, "),
        (
            ["claims", "--from", str(ROOT / "README.md")],
            "README.md contains no runs. Name a bundle, a run, ",
        ),
        (["kernel", "build", "6.6"], "Name one of these, or give --source TARBALL"),
        (["doctor", "--kernel", "six"], '--kernel "six" cannot be read'),
        (["advise"], "the following arguments are required: --rate-mbit, --rtt-ms"),
        (["advise", "--rate-mbit", "9", "--rtt-ms", "0"], "nothing can be advised for an RTT of 0"),
        (["advise", "--rate-mbit", "9", "--rtt-ms", "9", "--loss-pct", "100"], "allowed: 0 to"),
        (["advise", "--rate-mbit", "9", "--rtt-ms", "9", "--mss", "9"], "allowed: 536 to 1448"),
        (["advise", "--rate-mbit", "9", "--rtt-ms", "9", "--sndbuf", "4M"], "Add --predict"),
        (["advise", "--rate-mbit", "9", "--rtt-ms", "9", "--connections", "0"], "out of range"),
        (
            ["advise", "--rate-mbit", "9", "--rtt-ms", "9", "--predict", "--sndbuf", "4X"],
            '--sndbuf "4X" is not a size',
        ),
        (
            ["advise", "--rate-mbit", "9", "--rtt-ms", "9", "--predict", "--rcvbuf", "1K"],
            "allowed: 2304 bytes",
        ),
        (["new", "Mine"], "Allowed: a-z"),
        (["new", "buffers"], "buffers is a lab of the package"),
        (["runs", "lst"], "lst is not a command of labs runs; did you mean list?"),
        (["runs", "list", "--jsn"], "did you mean --json?"),
        (["runs", "list", "nowhere"], "nowhere"),
        (["runs", "show", "nowhere"], "nowhere"),
        (["runs", "compare", "nowhere", "elsewhere"], "nowhere"),
    ],
)
def test_main_refuses_bad_input_in_one_line_with_exit_code_2(
    words: list[str],
    phrase: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, line = wrong(capsys, *words)
    assert code == 2 and line.startswith("labs: ") and phrase in line
    assert list(tmp_path.iterdir()) == []


def test_main_with_json_reports_an_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = wrong(capsys, "run", "bufers", "--json")
    report = json.loads(line)
    assert (code, report["exit_code"], report["error"]) == (2, 2, "BadInput")
    assert 'did you mean "buffers"?' in report["message"]


def own_lab(folder: Path, fault: str) -> str:
    """A lab of the reader's own whose `conditions` meets a fault."""
    from labs.cli.new import source

    path = folder / "mine.py"
    path.write_text(source("mine").replace("    settings = as", f"    {fault}\n    settings = as"))
    return str(path)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("raise KeyboardInterrupt", 130),
        ("from labs.errors import RunFailed; raise RunFailed('it failed')", 4),
        ("from labs.errors import Missing; raise Missing('it lacks')", 3),
        ("from labs.errors import Damaged; raise Damaged('it broke')", 6),
        ("open('/proc/nothing-is-here')", 3),
    ],
)
def test_main_returns_the_exit_code_of_the_error(
    fault: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own_lab(tmp_path, fault)
    assert wrong(capsys, "run", path, "--testbed", "namespaces", "--dry-run")[0] == code


def test_main_ends_well_when_its_reader_has_gone() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "labs.cli", "doctor", "--json"],
        cwd=ROOT,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_run_dry_run_prints_the_link_and_the_sysctls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "run",
        "buffers",
        "--only",
        "both",
        "--rate-mbit",
        "10",
        "--delay-ms",
        "5",
        "--buffer-mib",
        "1",
        "--dry-run",
    ]
    assert main(words) == 0
    text = capsys.readouterr().out
    for line in (
        "htb rate 10mbit",
        "netem delay 5ms",
        "ip netns add server",
        "net.ipv4.tcp_wmem=1048576 1048576 1048576",
    ):
        assert line in text
    assert main([*words, "--json"]) == 0
    (both,) = json.loads(capsys.readouterr().out)["conditions"]
    assert both["condition"] == "both"
    shown = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(both["commands"]) == len(shown)
    assert list(tmp_path.iterdir()) == []  # nothing was started, nothing left


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["buffers", "--size", "full"], "buffers"),
        (["--rate-mbit", "10", "buffers"], "buffers"),
        (["--size", "full", "./mine.py"], "./mine.py"),
        (["--size", "full"], None),
        ([], None),
    ],
)
def test_lab_word_among_flags(words: list[str], word: str | None) -> None:
    assert lab_word(words) == word


@pytest.mark.parametrize(
    ("words", "code"), [(["--help"], 0), (["new", "mine", "--dry-run"], 0), (["nonsuch"], 2)]
)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_keep_the_exit_code(words: list[str], code: int, closed: str) -> None:
    argv = ("sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "labs.cli", *words)
    done = subprocess.run(
        argv, text=True, capture_output=True, cwd=ROOT, timeout=120, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_terminal_table_is_aligned() -> None:
    rows = [
        {"name": "default", "mib_s": 13.4, "settled": True, "note": None},
        {"name": "both", "mib_s": float("nan"), "settled": False, "note": "ends early"},
    ]
    assert terminal_table(rows, ["name", "mib_s", "settled", "note"]).splitlines() == [
        "name     mib_s  settled  note",
        "default   13.4      yes  -",
        "both         -       no  ends early",
    ]
    assert terminal_table([], ["name"]) == "name"


def test_help_names_the_exit_codes_of_the_errors() -> None:
    from labs.cli.__main__ import EXIT_CODES

    codes = {cls.exit_code for cls in LabError.__subclasses__()}
    assert all(f"{code} " in EXIT_CODES for code in codes)
