"""libvirt's daemons where nothing starts them: as far as it goes without starting any."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from vagrant import daemons


def test_what_answers_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sock"
    monkeypatch.setattr(daemons, "SOCKET", str(path))
    assert not daemons.answers()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
        one.listen()
        assert daemons.answers()
        assert daemons.main(["start"]) == 0
    assert capsys.readouterr().err == ""


def test_without_libvirt_the_next_step_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(daemons, "SOCKET", str(tmp_path / "sock"))
    monkeypatch.setattr(daemons, "DAEMONS", ("no-such-daemon",))
    assert daemons.main(["start"]) == 3
    assert "apt-get install" in capsys.readouterr().err


def test_what_another_process_left_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that is some other process's by now."""
    keeper = tmp_path / "pid"
    monkeypatch.setattr(daemons, "KEEPER", keeper)
    assert daemons.main(["stop"]) == 0
    with subprocess.Popen(("sleep", "60")) as other:
        keeper.write_text(f"{other.pid}\n")
        assert not daemons._end_keeper()
        assert other.poll() is None
        other.kill()
    keeper.write_text("no number\n")
    assert not daemons._end_keeper()


def test_a_keeper_that_does_not_end_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = tmp_path / "pid"
    monkeypatch.setattr(daemons, "KEEPER", keeper)
    monkeypatch.setattr(daemons, "ENDED_S", 1, raising=False)
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        (sys.executable, "-c", deaf, "daemons.py", "start"), stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        keeper.write_text(f"{other.pid}\n")
        assert not daemons._end_keeper()
        other.kill()


def test_other_words_are_refused() -> None:
    assert daemons.main(["restart"]) == 2
