"""Compiles the library of labs.read.native into a wheel: hatchling calls it.

LABS_TARGET names a system of `labs.read.native.build`, for which zig compiles; without it the
wheel is for this machine. Without a compiler the wheel is for any machine, and reads slowly.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TAGS = {
    "linux-x86_64": "manylinux_2_17_x86_64",
    "linux-arm64": "manylinux_2_17_aarch64",
    "darwin-x86_64": "macosx_11_0_x86_64",
    "darwin-arm64": "macosx_11_0_arm64",
    "win32-x86_64": "win_amd64",
}


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the library, and the tag of its system."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        target = os.environ.get("LABS_TARGET", "")
        argv = [sys.executable, "-m", "labs.read.native.build", "--targets", target]
        argv += ["--into", "build"] if target else []
        subprocess.run(argv, cwd=self.root, check=True)
        sys.path.insert(0, self.root)
        compiled = importlib.import_module("labs.read.native.compiled")
        file: Path = (
            compiled.library_file(*target.split("-", 1)) if target else compiled.library_file()
        )
        if file.exists():
            here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{TAGS[target] if target else here}"
            build_data["pure_python"] = False
            build_data["force_include"][str(file)] = f"labs/read/native/{file.name}"
