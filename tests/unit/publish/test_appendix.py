"""The artifact appendix: its claims, costs and packages, and its length in print."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import mistune
import pytest

from labs import catalog
from labs.cli.__main__ import main
from labs.errors import BadInput, Missing
from labs.publish.appendix import Row, appendix, packages, rows_of
from labs.publish.bundle_contents import CLONE
from labs.read.claims import ledger
from labs.read.claims.sources import sources_of, verdicts_from
from tests import chromium
from tests.run_folders import inputs, make_run

CLAIMS = Path(__file__).parents[2] / "fixtures" / "claims"
SYSTEM = CLONE / "setup" / "system.sh"
PAGES = 2
PRINTED = "<style>@page {{ size: A4; margin: 2cm }} body {{ font: 10pt serif }}</style>{body}"


def rows(folder: Path) -> list[Row]:
    lab = catalog.find("buffers")
    assert lab.ledger is not None
    article = ledger.read(lab.ledger)
    verdicts = verdicts_from(lab, sources_of(lab, CLAIMS / "6.1.tar.xz"))
    return rows_of([(lab, article, verdicts)], [folder])


def test_rows_are_the_major_claims_with_their_commands(tmp_path: Path) -> None:
    by_id = {row.claim.id: row for row in rows(tmp_path)}
    assert list(by_id) == ["A1.5", "A1.6", "A1.8"]
    assert all(row.claim.major for row in by_id.values())
    assert by_id["A1.5"].verdict == "wrong"
    assert by_id["A1.6"].command == "labs run buffers --size full --only default"
    assert not by_id["A1.6"].needs_root and not by_id["A1.6"].cost.runs


def test_rows_have_the_costs_of_earlier_runs(tmp_path: Path) -> None:
    for name, real_s in (("default", 2.5), ("shaped", 4.0)):
        make_run(tmp_path, inputs(name), host={"real_s": real_s})
    costs = {row.claim.id: row.cost for row in rows(tmp_path)}
    assert costs["A1.6"].real_s == 2.5 and costs["A1.6"].size_bytes > 1000
    assert costs["A1.8"].runs == 0, "its condition `both` was never run"
    make_run(tmp_path, inputs("both"), host={"real_s": 1.0})
    assert {row.claim.id: row.cost.real_s for row in rows(tmp_path)}["A1.8"] == 7.5


def test_packages_are_those_that_the_set_up_installs() -> None:
    """As bash has them in the variable of the script."""
    list_only = SYSTEM.read_text().split('FOR_TESTS="')[0] + 'echo "$NEEDED"'
    done = subprocess.run(
        ["bash", "-c", list_only, "system.sh"], cwd=SYSTEM.parent, capture_output=True, text=True
    )
    wanted = {line.split()[1] for line in done.stdout.splitlines() if line}
    named = packages(SYSTEM.read_text())
    assert set(named) - wanted == {"ca-certificates", "python3-venv"} and wanted <= set(named)
    assert {"nginx", "iproute2", "gcc"} <= wanted


def test_appendix_quotes_the_dockerfile_and_each_package_that_it_installs(tmp_path: Path) -> None:
    text = appendix(rows(tmp_path))
    quoted = text.split("```Dockerfile\n")[1].split("\n```")[0].splitlines()
    lines = (SYSTEM.parents[1] / "Dockerfile").read_text().splitlines()
    assert quoted == [line for line in lines if not line.startswith("#")]
    named = re.search(r"installs these packages of Debian 12: (.*)\.$", text, re.MULTILINE)
    assert named and tuple(named[1].split(", ")) == packages(SYSTEM.read_text())


def test_packages_of_another_script_are_refused() -> None:
    with pytest.raises(BadInput, match="NEEDED"):
        packages("set -e\n")


def test_appendix_outside_a_clone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Missing, match=re.escape("setup/system.sh")):
        appendix(rows(tmp_path), tmp_path)


def test_appendix_shows_hostile_statements_as_text(tmp_path: Path) -> None:
    (row, *_) = rows(tmp_path)
    bad = "a | b <script>alert(1)</script> ![x](http://example.org/x)\n\n# c `d` \x1b[2J"
    hostile = dataclasses.replace(row, claim=dataclasses.replace(row.claim, statement=bad))
    html = mistune.html(appendix([hostile]))
    assert isinstance(html, str)
    assert "<script" not in html and "<img" not in html and "\x1b" not in html
    assert html.count("<h1") == 1


@pytest.mark.skipif(chromium.no_browser() is not None, reason="chromium is not installed")
def test_appendix_of_all_articles_fits_on_two_printed_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pypdfium2

    sheets = tmp_path / "appendix.pdf"
    assert main(["bundle", "--appendix", "--json"]) == 0
    text = json.loads(capsys.readouterr().out)["appendix"]
    assert {f"A{number}." for number in range(1, 6)} <= set(re.findall(r"\bA\d\.", text))
    (default,) = (line for line in text.splitlines() if "**A1.6**" in line)
    assert "| holds |" in default
    page = tmp_path / "appendix.html"
    page.write_text(PRINTED.format(body=mistune.html(text)))
    with chromium.chromium() as browser:
        tab, _ = chromium.open_file(browser, page, width=800)
        tab.pdf(path=sheets, prefer_css_page_size=True)
    assert len(pypdfium2.PdfDocument(sheets)) <= PAGES
