"""What works without the packages of the extras, and the one line that names a missing extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
LOSS = ROOT / "tests" / "fixtures" / "parse" / "loss.pcap"
WITHOUT = """
import sys
for name in sys.argv.pop(1).split():
    sys.modules[name] = None
"""
COMMAND = WITHOUT + "from labs.cli.__main__ import main; sys.exit(main(sys.argv[1:]))"
CALL = WITHOUT + "from labs import capture; {call}"
INSTALL = 'pip install "tcp-lab-notebook[{}]"'


def run(code: str, missing: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, missing, *words], cwd=ROOT, text=True, capture_output=True
    )


def test_capture_table_without_pyarrow_names_the_extra(tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    done = run(COMMAND, "pyarrow", "capture", "table", str(LOSS), "--out", str(out))
    assert done.returncode == 3 and not out.exists()
    assert "pyarrow" in done.stderr and INSTALL.format("capture") in done.stderr


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("scapy", "capture.packet(sys.argv[1], 0)"),
        ("pyshark", "capture.in_pyshark(sys.argv[1], 1)"),
    ],
)
def test_packet_without_its_package_names_the_extra(package: str, call: str) -> None:
    done = run(CALL.format(call=call), package, str(LOSS))
    last = done.stderr.splitlines()[-1]
    assert last.startswith("labs.errors.Missing: ")
    assert package in last and INSTALL.format("packets") in last


def test_results_of_a_recorded_download_need_no_extra() -> None:
    """The recorded downloads have no capture. With large buffers they fill the link: 114.0 MiB/s
    of payload, 1448 of every 1514 bytes of 1000 Mbit/s."""
    code = WITHOUT + (
        "import labs\n"
        "study = labs.study(labs.check('buffers', {'TESTBED': 'recorded'}))\n"
        "print(study.results().set_index('condition').at['both', 'steady_mib_s'])"
    )
    done = run(code, "pyarrow scapy pyshark")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(114.0, rel=0.005)
