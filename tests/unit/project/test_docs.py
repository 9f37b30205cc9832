"""What the pages say exists: links, paths, commands, flags, make targets, and the example lab."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from labs import catalog
from labs.cli.__main__ import COMMANDS, main
from labs.cli.command import Arguments, prepare
from labs.cli.new import source
from labs.read.claims import ledger

ROOT = Path(__file__).parents[3]
HISTORY = ROOT / "CHANGELOG.md"
GUIDES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "data/DATASETS.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
PAGES = [*GUIDES, HISTORY]
README_LINES = 200
LINK = re.compile(r"\]\(([^)\s]+)\)", re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TOP = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
each_guide = pytest.mark.parametrize("page", GUIDES, ids=lambda path: path.name)


def text_of(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCED.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made from their words."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-") for words in headings}


def command_lines(page: Path) -> Iterator[list[str]]:
    """The words of each command in the indented blocks of a page."""
    text = text_of(page).replace("\\\n", " ")
    for line in re.findall(r"^(?: {4}| {7})(\S.*)$", text, re.MULTILINE):
        for command in line.split("  #")[0].split(" && "):
            words = shlex.split(command)
            while words and "=" in words[0]:
                words = words[1:]
            if words:
                yield [words[0].removeprefix(".venv/bin/"), *words[1:]]


def spans(page: Path) -> list[str]:
    """The pieces of a page that are set as code, blocks excluded."""
    prose = "\n".join(line for line in text_of(page).splitlines() if not line.startswith("    "))
    return [" ".join(span.split()) for span in SPAN.findall(prose)]


def parsers(name: str, *words: str) -> dict[str, Arguments]:
    """The parser of a command, with its first words, by "", and those of its verbs."""
    module = importlib.import_module(f"labs.cli.{name}")
    parser = prepare(name, words).parser
    verbs = {verb: prepare(name, [verb]).parser for verb in getattr(module, "VERBS", ())}
    return {"": parser, **verbs}


def flags(parsers: Mapping[str, Arguments]) -> set[str]:
    return {flag for parser in parsers.values() for flag in parser.flags}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the commands of the pages name."""
    monkeypatch.setattr(catalog, "_of_files", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mylab.py").write_text(source("mylab"), "utf-8")
    shutil.copytree(ROOT / "docs" / "recipes", tmp_path / "docs" / "recipes")
    return tmp_path


@each_page
def test_links_resolve(page: Path) -> None:
    for link in LINK.findall(text_of(page)):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@each_page
def test_paths_exist(page: Path) -> None:
    for span in spans(page):
        first = span.split("/")[0]
        if first not in TOP or "<" in span or " " in span or "=" in span:
            continue
        assert list(ROOT.glob(span.rstrip("/"))), span


@each_guide
def test_labs_commands_parse(page: Path, here: Path) -> None:
    for words in command_lines(page):
        if words[0] == "labs":
            assert words[1] in COMMANDS, words
            prepared = prepare(words[1], words[2:])
            prepared.parser.read([word for word in prepared.words if word != "--help"])


@each_guide
def test_labs_commands_in_prose_exist(page: Path, here: Path) -> None:
    for span in spans(page):
        words = span.split()
        if words[0] != "labs" or len(words) == 1 or words[1].startswith("-"):
            continue
        assert words[1] in COMMANDS, span
        of_command = parsers(*(["run", "buffers"] if words[1] == "run" else words[1:2]))
        others = [word for word in words[2:3] if not word.startswith("-") and words[1] != "doctor"]
        assert len(of_command) == 1 or set(others) <= set(of_command), span
        assert {word for word in words if word.startswith("--")} <= flags(of_command), span


@each_guide
def test_flags_in_prose_exist(page: Path, here: Path) -> None:
    every = {"--help"}
    for name in COMMANDS:
        every |= flags(parsers(name))
    for lab in catalog.LABS:
        every |= flags(parsers("run", lab))
    assert {span.split()[0] for span in spans(page) if span.startswith("--")} <= every


@each_page
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called = [words[1] for words in command_lines(page) if words[0] == "make"]
    called += [span.split()[1] for span in spans(page) if span.startswith("make ")]
    assert set(called) <= targets


def test_readme_is_short_and_begins_with_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) < README_LINES
    assert [words[:2] for words in command_lines(ROOT / "README.md")][:2] == [
        ["make", "lab"],
        ["make", "test"],
    ]
    assert any(line.startswith("    make lab ") for line in lines[:15])


def test_map_has_every_folder() -> None:
    rows = re.findall(r"^    ( *)([\w.]+?)(/?) {2,}\S", text_of(ROOT / "README.md"), re.MULTILINE)
    inner = {name + slash for indent, name, slash in rows if len(indent) == 2}
    outer = {name for indent, name, slash in rows if not indent and slash}
    assert inner == {
        path.name + "/" * path.is_dir()
        for path in (ROOT / "labs").iterdir()
        if not path.name.startswith((".", "_")) and path.name != "py.typed"
    }
    listed = subprocess.run(
        ("git", "ls-tree", "--name-only", "-d", "HEAD"), cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git clone")
    assert outer == {name for name in listed.stdout.split() if not name.startswith(".")}


def test_example_is_the_template_and_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "writing-a-lab.md").read_text("utf-8")
    example = next(text for kind, text in FENCED.findall(page) if kind == "python")
    assert example == source("mylab"), "copy `labs new mylab --dry-run` into docs/writing-a-lab.md"
    assert catalog.find("./mylab.py").name == "mylab"
    assert main(["run", "./mylab.py", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "netem delay 10ms" in printed and "netem delay 100ms" in printed


def test_example_claim_is_read_by_the_ledger(tmp_path: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (claim,) = (text for kind, text in FENCED.findall(page) if kind == "toml")
    article = (ROOT / "labs/experiments/nagle/article3.toml").read_text("utf-8")
    file = tmp_path / "article3.toml"
    head = article[: article.index("[[claim]]")]
    file.write_text(head + re.sub(r"A3\.\d+", "A3.1", claim), "utf-8")
    (entry,) = ledger.read(file).claims
    assert entry.expected == tomllib.loads(claim)["claim"][0]["expected"]
    assert set(entry.columns.values()) <= set(catalog.find("nagle").columns)


def test_glossary_defines_what_the_pages_take_for_granted() -> None:
    defined = re.findall(
        r"^\*\*([^*]+?)\.?\*\*", (ROOT / "docs/glossary.md").read_text("utf-8"), re.M
    )
    terms = {term for entry in defined for term in entry.split(", ")}
    assert len(terms) >= 40
    assert terms >= {
        *("BDP", "Goodput", "In flight", "cwnd", "rwnd", "rcv_ssthresh", "rcv_space", "skmem"),
        *("RTT", "RTO", "HZ", "tick", "GRO", "GSO", "TSO", "netem", "htb", "fq_codel", "ss"),
        *("Delayed ACK", "Quick ACK", "Nagle's algorithm", "Minshall's variant", "MSS", "MTU"),
        *("Virtual time", "Run", "Study", "Condition", "Key", "Second testbed"),
    }


def test_last_release_is_the_cited_one() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", HISTORY.read_text("utf-8"), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert headings[1] == (citation["version"], str(citation["date-released"]))
