"""Say how virtual machines run here: `kvm`, or `emulation` where hardware does not help.

    python3 accelerator.py KERNEL

/dev/kvm may be there and a guest still hang, so KERNEL (a bzImage; the box's own) is booted with
it once, for ten seconds at most. The answer is remembered in the user's cache for this host
kernel and QEMU; LAB_ACCELERATOR=kvm or emulation overrides it, LAB_ACCELERATOR=retry asks again.
Prints one JSON object: {"accelerator", "why"}.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

KVM, EMULATION = "kvm", "emulation"
QEMU = "qemu-system-x86_64"
DEVICE = Path("/dev/kvm")
TRIAL_S = 10
# A kernel without a root file system comes up to this, past all that virtual hardware decides.
BOOTED = "Unable to mount root fs"
AGAIN = "; LAB_ACCELERATOR=retry tries again"


def trial_argv(kernel: Path) -> tuple[str, ...]:
    """The boot that is tried: it ends by itself, with what the kernel said on standard output."""
    return (
        QEMU,
        "-machine",
        "q35,accel=kvm",
        "-cpu",
        "host",
        "-m",
        "256",
        "-smp",
        "1",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-serial",
        "stdio",
        "-no-reboot",
        "-kernel",
        str(kernel),
        "-append",
        "console=ttyS0 panic=-1",
    )


def trial(kernel: Path) -> tuple[str, str]:
    """Boot the kernel with KVM: the accelerator to use, and why."""
    if not DEVICE.exists():
        return EMULATION, f"there is no {DEVICE}"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return EMULATION, f"{DEVICE} is not open to this user (group kvm)"
    if shutil.which(QEMU) is None:
        return EMULATION, f"{QEMU} is not installed"
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            trial_argv(kernel), stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.DEVNULL
        )
        try:
            exit_code = process.wait(TRIAL_S)
        except subprocess.TimeoutExpired:
            process.kill()  # and no waiting: what hangs in the device may not be ended
            return EMULATION, f"a kernel booted with {DEVICE} did not come up in {TRIAL_S} s{AGAIN}"
        said.seek(0)
        if BOOTED.encode() in said.read():
            return KVM, "a kernel booted with it came up"
    return EMULATION, (
        f"a kernel booted with {DEVICE} did not come up: QEMU ended with exit code "
        f"{exit_code}{AGAIN}"
    )


def remembered(cache: Path, here: Mapping[str, str]) -> tuple[str, str] | None:
    """The answer of an earlier trial on the same host kernel and QEMU, if there is one."""
    try:
        found = json.loads(cache.read_text())
        if found["here"] == here and found["accelerator"] in (KVM, EMULATION):
            return found["accelerator"], str(found["why"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def this_host() -> dict[str, str]:
    """What a remembered answer holds for."""
    program = shutil.which(QEMU)
    said = (
        subprocess.run((program, "--version"), capture_output=True, text=True).stdout
        if program
        else ""
    )
    return {
        "kernel": platform.release(),
        "qemu": said.split("\n")[0],
        "device": str(DEVICE.exists()),
        "open": str(os.access(DEVICE, os.R_OK | os.W_OK)),
    }


def decide(kernel: Path, asked: str, cache: Path) -> tuple[str, str]:
    """The accelerator and the reason; `asked` is LAB_ACCELERATOR, or empty."""
    if asked in (KVM, EMULATION):
        return asked, "LAB_ACCELERATOR says so"
    here = this_host()
    known = None if asked == "retry" else remembered(cache, here)
    if known:
        return known
    if not kernel.is_file():
        return EMULATION, (
            f"there is no kernel to try KVM with ({kernel}); LAB_ACCELERATOR=kvm "
            "takes it without a trial"
        )
    accelerator, why = trial(kernel)
    cache.parent.mkdir(parents=True, exist_ok=True)
    part = cache.with_name(f".{cache.name}.{os.getpid()}")
    part.write_text(json.dumps({"accelerator": accelerator, "why": why, "here": here}) + "\n")
    part.replace(cache)
    return accelerator, why


def cache_file() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root, "labs", "accelerator.json")


def main(argv: Sequence[str]) -> int:
    asked = os.environ.get("LAB_ACCELERATOR", "")
    if asked not in ("", KVM, EMULATION, "retry"):
        print(f"LAB_ACCELERATOR is '{asked}'; allowed: {KVM}, {EMULATION}, retry", file=sys.stderr)
        return 2
    accelerator, why = decide(Path(argv[0]), asked, cache_file())
    print(json.dumps({"accelerator": accelerator, "why": why}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
