"""The root folder that a guest sees: the files of a kit, and those that this version of labs adds.

Nothing of this machine's root is visible inside: only programs, libraries and the interpreter with
its standard library, which are of the kit, and a small /etc that is the same everywhere.

A root is identified and stored by its content, created once, and verified before each use
(`kept_copy`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from labs.drive.kernel.kept_copy import (
    File,
    Interpreter,
    Kept,
    file,
    kept_copy,
    listing,
    listing_digest,
)
from labs.guest.programs import init
from labs.guest.programs.init import INIT

_INIT_FILE = Path(init.__file__)

BIN, LIB = "usr/bin", "usr/lib"
LINKS = {"bin": BIN, "sbin": BIN, "usr/sbin": "bin", "lib": LIB, "lib64": LIB, "usr/lib64": "lib"}
FOLDERS = ("dev", "proc", "sys", "run", "tmp", "root", "var/log", "var/lib")
# The accounts that the tools of the labs switch to, or look up.
ACCOUNTS = {"root": 0, "www-data": 33, "sshd": 101, "tcpdump": 102, "nobody": 65534}
ETC: dict[str, str] = {
    "passwd": "".join(f"{name}:x:{n}:{n}:{name}:/:/bin/sh\n" for name, n in ACCOUNTS.items()),
    "group": "".join(f"{name}:x:{n}:\n" for name, n in ACCOUNTS.items()) + "nogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\n",
    "hosts": "127.0.0.1 localhost\n",
    "host.conf": "multi on\n",
    "resolv.conf": "",
    "services": "http 80/tcp\n",
    "protocols": "tcp 6 TCP\nudp 17 UDP\n",
}
ETC_BYTES = {
    # A zone file (tzfile(5)) with one type: UTC, no transitions.
    "localtime": b"TZif" + bytes(16) + struct.pack(">6I", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0"
}

# Where OpenSSL looks for its configuration depends on who built it.
OPENSSL_FOLDERS = ("usr/lib/ssl", "etc/ssl", "etc/pki/tls")
OPENSSL = b"openssl_conf = labs\n[labs]\n"


def kept_root(files: Mapping[str, File], interpreter: Interpreter) -> Kept:
    """The copy that serves a guest as its root: of these files by their paths in it, and those of
    labs; made if it is not in the cache."""
    every = {**files, **files_of_labs(files)}
    return kept_copy("roots", every, interpreter, links=LINKS, folders=FOLDERS)


def files_of_labs(files: Iterable[str]) -> dict[str, File]:
    """The files that labs add to a root with these files."""
    etc = {name: text.encode() for name, text in ETC.items()} | ETC_BYTES
    libraries = (path for path in map(PurePosixPath, files) if str(path.parent) == LIB)
    contents = {
        **{f"etc/{name}": content for name, content in etc.items()},
        **{f"{folder}/openssl.cnf": OPENSSL for folder in OPENSSL_FOLDERS},
        "etc/ld.so.cache": library_cache({path.name: f"/{path}" for path in libraries}),
        INIT[1:]: _INIT_FILE.read_bytes(),
    }
    return {name: file(content) for name, content in contents.items()}


def digest_of_labs(files: Iterable[str]) -> str:
    """The digest of all that labs add to a root with these files, links and empty folders
    included."""
    return listing_digest(listing(files_of_labs(files), LINKS, FOLDERS))


# --- the loader's cache -------------------------------------------------------------------
# struct cache_file_new and file_entry_new of glibc's sysdeps/generic/dl-cache.h.
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEADER = struct.Struct("<20sIIB3xI12x")
_CACHE_ENTRY = struct.Struct("<iIIIQ")
_LITTLE_ENDIAN, _X86_64_LIBC6 = 2, 0x0303


def library_cache(paths: Mapping[str, str]) -> bytes:
    """/etc/ld.so.cache for libraries by soname.

    Without it the loader would search folders that depend on the features of the processor.
    """
    names = sorted(paths, key=_cache_order, reverse=True)
    texts = [text.encode() + b"\0" for name in names for text in (name, paths[name])]
    at = _CACHE_HEADER.size + _CACHE_ENTRY.size * len(names)
    offsets = []
    for text in texts:
        offsets.append(at)
        at += len(text)
    strings = b"".join(texts)
    entries = (
        _CACHE_ENTRY.pack(_X86_64_LIBC6, offsets[2 * i], offsets[2 * i + 1], 0, 0)
        for i in range(len(names))
    )
    header = _CACHE_HEADER.pack(_CACHE_MAGIC, len(names), len(strings), _LITTLE_ENDIAN, 0)
    return header + b"".join(entries) + strings


def _cache_order(name: str) -> list[tuple[int, int]]:
    """The loader's sort key for sonames (elf/dl-cache.c: _dl_cache_libcmp): digits compare as
    numbers and sort after everything else."""
    return [
        (1, int(word)) if word.isdigit() else (0, ord(word))
        for word in re.findall(r"[0-9]+|[^0-9]", name)
    ]
