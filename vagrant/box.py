"""Build the box of a lab machine from Debian packages: a bootable disk, and its catalogue.

    python vagrant/box.py [--release bookworm|trixie] [--provider libvirt|virtualbox]

Needs root, and reads packages through this machine's own sources of Debian. Leaves in
`vagrant/boxes`: the box, the kernel in it (for the trial boot of `accelerator.py`), and a
catalogue in Vagrant's own format, with the box's sha256, which the Vagrantfile reads.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from labs.drive.kernel import kernel_source  # noqa: E402
from labs.drive.record.disk import owned_folder  # noqa: E402
from labs.drive.testbed.packages import MACHINE_TOOLS, install_line, packages  # noqa: E402
from labs.errors import LabError, Missing, RunFailed  # noqa: E402

BOXES = HERE / "boxes"
RELEASES = {"bookworm": "Debian 12, Linux 6.1", "trixie": "Debian 13, Linux 6.12"}
PROVIDERS = ("libvirt", "virtualbox")
BUILD_TOOLS = ("mmdebstrap", "qemu-img", "sfdisk", "mke2fs", "mkfs.fat", "mcopy", "syslinux")
MBR = Path("/usr/lib/syslinux/mbr/mbr.bin")
# What makes a root file system a machine that starts, is reached and is asked for its addresses.
SYSTEM = (
    "linux-image-amd64",
    "initramfs-tools",
    "systemd-sysv",
    "udev",
    "dbus",
    "openssh-server",
    "sudo",
    "qemu-guest-agent",
    "kmod",
    "procps",
    "netbase",
)
MIB = 1 << 20
BOOT_AT, BOOT_MIB, ROOT_MIB = 1, 96, 3072
ROOT_LABEL = "labs-root"
SYSLINUX = f"""\
default labs
prompt 0
label labs
  linux vmlinuz
  initrd initrd.img
  append root=LABEL={ROOT_LABEL} ro net.ifnames=0 console=tty0 console=ttyS0,115200 quiet
"""
# Bootable at its first partition; addresses and sizes in sectors.
PARTITIONS = f"""\
label: dos
start={BOOT_AT * 2048}, size={BOOT_MIB * 2048}, type=c, bootable
start={(BOOT_AT + BOOT_MIB) * 2048}, size={ROOT_MIB * 2048}, type=83
"""


def run(argv: Sequence[str | Path], *, stdin: str = "") -> str:
    """Run a program to its end and return what it printed; RunFailed with its last line."""
    done = subprocess.run(
        argv, input=stdin, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RunFailed(
            f"{argv[0]} ended with exit code {done.returncode}: "
            f"{said[-1] if said else 'it said nothing'}"
        )
    return done.stdout


def mirrors(release: str, found: str) -> tuple[str, ...]:
    """The sources that a box of `release` is built from; Missing where this machine has none."""
    lines = kernel_source.sources(release, found)
    if not lines:
        raise Missing(
            "this machine has no package source of Debian (apt-get indextargets); build "
            "the box on one that has, and name it here: LAB_BOX_URL=URL vagrant up"
        )
    return lines


def bootstrap(release: str, root: Path, sources: Iterable[str]) -> tuple[str | Path, ...]:
    """The mmdebstrap line that makes the root file system."""
    here = shlex.quote(str(HERE))  # the hooks go to a shell
    included = (*SYSTEM, *packages(MACHINE_TOOLS, "apt-get"))
    return (
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        "--format=directory",
        f"--include={','.join(dict.fromkeys(included))}",
        # A server that is installed here starts in a run, not now.
        '--essential-hook=printf "#!/bin/sh\\nexit 101\\n" >"$1/usr/sbin/policy-rc.d"; '
        'chmod +x "$1/usr/sbin/policy-rc.d"',
        f'--customize-hook=cp -rT {here}/root "$1"',
        f'--customize-hook=cp {here}/provision.sh "$1/tmp/"',
        '--customize-hook=chroot "$1" /bin/sh /tmp/provision.sh',
        '--customize-hook=rm "$1/tmp/provision.sh" "$1/usr/sbin/policy-rc.d"',
        "--skip=cleanup/reproducible",
        release,
        root,
        *(f"deb {line}" for line in sources),
    )


def disk_of(root: Path, work: Path) -> Path:
    """A disk that starts by itself: a boot sector, a boot partition, the root file system."""
    kernel = next((root / "boot").glob("vmlinuz-*"))
    initrd = next((root / "boot").glob("initrd.img-*"))
    boot, system, disk = work / "boot.fat", work / "root.ext4", work / "disk.raw"
    (work / "syslinux.cfg").write_text(SYSLINUX)
    shutil.copy(kernel, work / "vmlinuz")
    shutil.copy(initrd, work / "initrd.img")
    sized(boot, BOOT_MIB)
    run(("mkfs.fat", "-h", str(BOOT_AT * 2048), "-n", "LABSBOOT", boot))
    run(("syslinux", "--install", boot))
    for name in ("vmlinuz", "initrd.img", "syslinux.cfg"):
        run(("mcopy", "-i", boot, work / name, "::"))
    for path in (root / "boot").iterdir():  # it is in the boot partition now
        if path.name.startswith(("vmlinuz-", "initrd.img-")):
            path.unlink()
    sized(system, ROOT_MIB)
    run(("mke2fs", "-q", "-t", "ext4", "-L", ROOT_LABEL, "-d", root, system))
    sized(disk, BOOT_AT + BOOT_MIB + ROOT_MIB)
    run(("sfdisk", "--quiet", disk), stdin=PARTITIONS)
    overlay(MBR, disk, 0)
    overlay(boot, disk, BOOT_AT)
    overlay(system, disk, BOOT_AT + BOOT_MIB)
    return disk


def sized(path: Path, size_mib: int) -> None:
    """Make a sparse file."""
    with path.open("wb") as file:
        file.truncate(size_mib * MIB)


def overlay(part: Path, disk: Path, at_mib: int) -> None:
    """Write a part onto a disk, holes left out."""
    run(
        (
            "dd",
            f"if={part}",
            f"of={disk}",
            "bs=1M",
            f"seek={at_mib}",
            "conv=notrunc,sparse",
            "status=none",
        )
    )


def box_files(provider: str, disk: Path, work: Path) -> dict[str, Path]:
    """The files of a box, by their name in it."""
    if provider == "libvirt":
        image, told = (
            work / "box.img",
            {
                "provider": "libvirt",
                "format": "qcow2",
                "virtual_size": -(-(BOOT_AT + BOOT_MIB + ROOT_MIB) // 1024),
            },
        )
        run(("qemu-img", "convert", "-c", "-O", "qcow2", disk, image))
        files = {"box.img": image}
    else:
        image, told = work / "box.vmdk", {"provider": "virtualbox"}
        run(("qemu-img", "convert", "-O", "vmdk", "-o", "subformat=streamOptimized", disk, image))
        ovf = work / "box.ovf"
        template = (HERE / "box.ovf").read_text()
        ovf.write_text(template.replace("@CAPACITY@", str(disk.stat().st_size)))
        files = {"box.ovf": ovf, "box.vmdk": image}
    metadata, vagrantfile = work / "metadata.json", work / "Vagrantfile"
    metadata.write_text(json.dumps(told) + "\n")
    # VirtualBox's provider wants the hardware address of the first card from the box.
    base = "config.vm.base_mac = '0800274C0100'" if provider == "virtualbox" else ""
    vagrantfile.write_text(f"Vagrant.configure('2') {{ |config| {base} }}\n")
    return {"metadata.json": metadata, "Vagrantfile": vagrantfile, **files}


def pack(files: Mapping[str, Path], into: Path) -> None:
    """Write a box; its disk is compressed already, so gzip need not try hard."""
    with (
        gzip.open(into, "wb", compresslevel=1) as zipped,
        tarfile.open(fileobj=zipped, mode="w|", format=tarfile.GNU_FORMAT) as box,
    ):
        for name, path in files.items():
            box.add(path, name)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def catalogue(release: str, version: str, boxes: Mapping[str, Path]) -> dict[str, Any]:
    """What Vagrant reads of a box: its name, its version, for each provider file and sha256."""
    return {
        "name": f"labs/{release}",
        "description": f"{RELEASES[release]}: a machine of the labs",
        "versions": [
            {
                "version": version,
                "providers": [
                    {
                        "name": provider,
                        "url": path.as_uri(),
                        "checksum_type": "sha256",
                        "checksum": digest(path),
                    }
                    for provider, path in boxes.items()
                ],
            }
        ],
    }


def check_here() -> None:
    """Missing if a box cannot be built here, with the next step."""
    if shutil.which("apt-get") is None:
        raise Missing(
            "a box is made of Debian's packages, and there is no apt-get here; build it "
            "where there is, and name it here: LAB_BOX_URL=URL vagrant up"
        )
    lacking = [tool for tool in BUILD_TOOLS if shutil.which(tool) is None]
    if not MBR.is_file():
        lacking.append("syslinux-common")
    if lacking:
        raise Missing(f"building a box needs {', '.join(lacking)}; {install_line(lacking)}")
    if os.geteuid():
        raise Missing(
            "building a box needs root, to make a system with all its owners; sudo make box"
        )


def build(release: str, provider: str) -> Path:
    """Build a box and its catalogue; the box's path. Nothing half-made is left."""
    check_here()
    BOXES.mkdir(exist_ok=True)
    sources = mirrors(release, kernel_source.targets())
    with owned_folder(".making-", BOXES) as work:
        work.chmod(0o755)
        print(f"installing {RELEASES[release]} from this machine's package sources", flush=True)
        run(bootstrap(release, work / "root", sources))
        print("making the disk", flush=True)
        disk = disk_of(work / "root", work)
        print("packing the box", flush=True)
        box = work / "box"
        pack(box_files(provider, disk, work), box)
        final = BOXES / f"{release}-{provider}.box"
        listed = BOXES / f"{release}-{provider}.json"
        listed.unlink(missing_ok=True)
        box.replace(final)
        shutil.copy(work / "vmlinuz", BOXES / f"{release}-vmlinuz")
        version = time.strftime("%Y%m%d.%H%M%S.0", time.gmtime())
        made_list = work / listed.name
        made_list.write_text(
            json.dumps(catalogue(release, version, {provider: final}), indent=1) + "\n"
        )
        made_list.replace(listed)
    return final


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Build the box of a lab machine.")
    parser.add_argument("--release", choices=RELEASES, default="bookworm")
    parser.add_argument("--provider", choices=PROVIDERS, default="libvirt")
    args = parser.parse_args(argv)
    started = time.monotonic()
    try:
        box = build(args.release, args.provider)
    except LabError as error:
        print(f"box: {error}", file=sys.stderr)
        return error.exit_code
    print(
        f"{box.relative_to(HERE.parent)}: {box.stat().st_size // MIB} MiB, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
