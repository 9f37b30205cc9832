"""What a program inside reaches by system calls: its own kernel, and nothing of this machine.

docs/reproducibility.md says what remains possible: in seccomp mode, by the stub page.
"""

from __future__ import annotations

import errno
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.drive.kernel.boot import EITHER, EPOCH_NS, PTRACE, SECCOMP
from labs.errors import RunFailed
from tests.conftest import DEFAULT_KERNEL
from tests.virtual.booting import ON_EACH_KERNEL, inside, processes

SOURCE = Path(__file__).with_name("escape.c")
EPOCH_S = EPOCH_NS // 10**9
# Set by the kernel for each attempt: no such file, no such process, no such number, and what the
# x86-64 calls with the numbers of i386 return for descriptor -1 (writev, lseek).
IN_A_GUEST = {
    **{"open": -errno.ENOENT, "creat": -errno.ENOENT, "kill": -errno.ESRCH},
    **{f"x32-{name}": -errno.ENOSYS for name in ("getpid", "creat", "kill")},
    **{f"int80-{name}": -errno.EBADF for name in ("getpid", "creat")},
}
pytestmark = pytest.mark.program("gcc")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, with no library to load and at an address of 32 bits, as int 0x80 needs."""
    program = tmp_path_factory.mktemp("escape") / "escape"
    subprocess.run(
        ("gcc", "-O1", "-Wall", "-Werror", "-static", "-no-pie", "-o", str(program), str(SOURCE)),
        check=True,
    )
    return program


@pytest.fixture
def escape(compiled: Path, staging: Path) -> Path:
    """The program in the folder of the run, where a guest starts it as ./escape."""
    (staging / "escape").hardlink_to(compiled)
    return staging / "escape"


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this machine that SIGUSR1 ends."""
    with subprocess.Popen(("sleep", "300")) as process:
        yield process
        process.kill()


def results(lines: list[str]) -> dict[str, int | str]:
    """What each attempt returned, or the signal that it raised."""
    found: dict[str, int | str] = {}
    for line in lines:
        word, _, said = line.partition(" ")
        if said:
            found[word] = int(said) if said.lstrip("-").isdecimal() else said
    return found


def test_on_the_machine_itself_the_calls_have_an_effect(
    escape: Path, victim: subprocess.Popen[bytes], canaries: list[Path]
) -> None:
    """The proof that the calls which a guest must stop would do something."""
    made = canaries[1].with_name("made")
    words = (str(escape), "calls", str(canaries[1]), str(made), str(victim.pid))
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found = results(done.stdout.splitlines())
    assert found["open"] not in IN_A_GUEST.values() and made.exists()
    assert victim.wait(10) == -signal.SIGUSR1


@ON_EACH_KERNEL
@pytest.mark.parametrize("mode", EITHER)
def test_system_calls_of_a_program_reach_only_its_own_kernel(
    kernel: Path,
    mode: str,
    memory: Path,
    staging: Path,
    escape: Path,
    victim: subprocess.Popen[bytes],
    canaries: list[Path],
) -> None:
    made = canaries[1].with_name("made")
    words = f"calls {canaries[1]} {made} {victim.pid}"
    lines = inside(kernel, staging, f"echo shell $$; exec ./escape {words}", modes=(mode,))
    found = results(lines)
    assert {name: found[name] for name in IN_A_GUEST} == IN_A_GUEST
    # `exec` keeps the number; a number of x86-64 means the same by int 0x80.
    assert found["getpid"] == found["int80-number-of-x86-64"] == found["shell"]
    assert victim.poll() is None and not made.exists()
    if mode != PTRACE:  # with ptrace it is the machine's clock: docs/reproducibility.md
        assert found["vsyscall-time"] in (EPOCH_S, f"signal {signal.SIGSEGV.value}")


def fails(kernel: Path, memory: Path, staging: Path, words: str, mode: str) -> list[str]:
    """Boot the program, which must end the run in one line and leave nothing; the console."""
    lines: list[str] = []
    with pytest.raises(RunFailed, match="console ends: ") as caught:
        inside(kernel, staging, f"exec ./escape {words}", modes=(mode,), on_line=lines.append)
    assert "\n" not in str(caught.value)
    assert processes(memory) == []
    assert list(memory.iterdir()) == []
    return lines


STUB_PAGES = {"5.10": 0x100000, "6.1": 0x7FBFFFF000, "6.12": 0x7FBFFFF000}
"""Where the programs of a series have the stub page: STUB_START in 5.10, and three pages below
os_get_top_address() later. In 7.2 it is below the environment of the kernel's own process."""


def with_stub_page(*names: str) -> pytest.MarkDecorator:
    """Parametrize by kernel, and by the address of its stub page."""
    return pytest.mark.parametrize(
        ("kernel", "page"),
        [
            pytest.param(
                name,
                f"{STUB_PAGES[name]:x}",
                id=name,
                marks=() if name == DEFAULT_KERNEL else pytest.mark.kernel(name),
            )
            for name in names
        ],
        indirect=["kernel"],
    )


@with_stub_page(*STUB_PAGES)
@pytest.mark.parametrize("mode", EITHER)
def test_a_call_from_the_stub_page_that_it_does_not_need_fails_the_run(
    kernel: Path, page: str, mode: str, memory: Path, staging: Path, escape: Path
) -> None:
    lines = fails(kernel, memory, staging, f"jump {page}", mode)
    assert "jumps" in lines
    if mode == SECCOMP:  # this machine's kernel ended the process of the program
        assert any("Unexpectedly lost MM child!" in line for line in lines)


@with_stub_page(*STUB_PAGES)
@pytest.mark.parametrize("byte", [1, 255])
def test_a_scribbled_stub_page_is_written_anew_because_the_kernel_keeps_its_length(
    kernel: Path, page: str, byte: int, memory: Path, staging: Path, escape: Path
) -> None:
    words = f"exec ./escape scribble {page} {byte}"
    lines = inside(kernel, staging, words, modes=(SECCOMP,))
    assert "scribbles" in lines and "went on" in lines


@with_stub_page(*STUB_PAGES)
@pytest.mark.parametrize("turn", [1, 2])
def test_a_forged_turn_neither_hangs_nor_ends_the_kernel(
    kernel: Path, page: str, turn: int, memory: Path, staging: Path, escape: Path
) -> None:
    """1 is the kernel's turn, which then goes on beside the program; 2 is nobody's."""
    lines = inside(kernel, staging, f"exec ./escape forge {page} {turn}", modes=(SECCOMP,))
    assert "forges" in lines and "went on" in lines
    assert processes(memory) == []
