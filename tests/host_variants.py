"""Do equal inputs leave equal bytes, whatever the host's files are? `make host-variants`, as root.

    python -m tests.host_variants [--only NAME] [--jobs N] [--json]

One run of each lab is performed on the untouched host, and again on each variant of it, in a mount
namespace of its own and with an empty cache. A variant passes with one of these results:

    same                the runs have the same keys, and all files except host.json the same bytes
    other key           a run has another key, and `labs runs compare` names the input that differs
    refused             expected, and the run is refused in one line
    not possible here   this host does not allow the change

Other bytes under the same key must never occur. Exit code 5 if a variant fails.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from labs.drive.kernel import store
from labs.drive.kernel.guest_root import libraries
from labs.drive.record.disk import owned_folder
from labs.drive.record.seal import RUN, verify
from labs.errors import BadInput, LabError, Missing, ResultsDiffer, RunFailed
from labs.launch import inventory
from labs.read.display.format import terminal_table
from tests import changed_host
from tests.changed_files import OF_FILES
from tests.changed_processes import OF_PROCESSES
from tests.variants import LABS, OTHER_KEY, REFUSED, SAME, File, Variant

ROOT = Path(__file__).resolve().parents[1]
STUDY = ROOT / "tests" / "virtual" / "one_study.py"
VARIANTS = (*OF_FILES, *OF_PROCESSES)
UNTOUCHED = Variant("the untouched host")
WORDS: Mapping[str, tuple[str, ...]] = {
    "buffers": ("only=both", "transfer_mib=1"),
    "nagle": ("only=on", "requests=200", "capture=True"),
    "sweeps": ("only=both-256k", "transfer_mib=1"),
    "windows": ("only=article-scale0",),
}
KERNEL = "6.1"
LIMIT_S, TIMED_OUT = 900, 124
OTHER_BYTES, NO_RUN, NOT_HERE = "OTHER BYTES", "no run", "not possible here"


@dataclass(frozen=True)
class Made:
    """A run of one lab: its folder, its key, and the digests of its files but host.json."""

    folder: Path
    key: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """The result of a variant: what was found per lab, and one line about it."""

    name: str
    expected: str
    found: Mapping[str, str]
    about: str
    passed: bool
    real_s: float

    @property
    def verdict(self) -> str:
        """The result, per lab if the labs differ."""
        kinds = set(self.found.values())
        if len(kinds) == 1:
            return kinds.pop()
        return ", ".join(f"{lab}: {kind}" for lab, kind in self.found.items())

    def as_json(self) -> dict[str, object]:
        return {**dataclasses.asdict(self), "verdict": self.verdict}


# --- what is started ----------------------------------------------------------------------


def places(base: Path) -> dict[str, str]:
    """The values of the words in braces on this host, except `work`, which each variant has."""
    interpreter = inventory.python().resolve()
    every = (*inventory.EVERY_RUN, *OF_LABS)
    programs = {name: inventory.find(name).resolve() for name in every}
    loaded = {name: path.resolve() for name, path in libraries(programs.values()).items()}
    asked = "import os, mmap; print(os.path.dirname(os.__file__), mmap.__file__)"
    done = subprocess.run((interpreter, "-I", "-S", "-c", asked), capture_output=True, text=True)
    stdlib, extension = done.stdout.split()
    named = {short: name for name in loaded for short in SHORT if name.startswith(SHORT[short])}
    version = inventory.version(programs["nginx"]).rpartition("/")[2]
    files = {**programs, **{short: loaded[name] for short, name in named.items()}}
    files |= {"python": interpreter, "extension": Path(extension)}
    return {
        **{name: str(path) for name, path in files.items()},
        **{f"{name}_folder": str(path.parent) for name, path in files.items()},
        **{f"{short}_name": name for short, name in named.items()},
        "libs": str(loaded[named["libc"]].parent),
        "other_python": str(Path(sys.executable).resolve()),
        "stdlib": stdlib,
        "stdlib_name": Path(stdlib).name,
        "nginx_version": version,
        "other_version": version[:-1] + ("0" if version.endswith("9") else "9"),
        "last_cpu": str(max(os.sched_getaffinity(0))),
        "path": os.environ["PATH"],
        "code": str(base / "code"),
        "kernels": str(base / "kernels"),
        "other_kernels": str(base / "other-kernels"),
    }


OF_LABS = ("nginx", "ab", "tcpdump", "iperf3", "ethtool")
SHORT = {
    "libc": "libc.so.",
    "loader": "ld-linux",
    "crypto": "libcrypto.so.",
    "ssl": "libssl.so.",
    "pcre": "libpcre2-8.so.",
}


def filled(words: str, known: Mapping[str, str]) -> str:
    """A text with the words in braces replaced by their values."""
    for name, value in known.items():
        words = words.replace(f"{{{name}}}", value)
    return words


def order(variant: Variant, known: Mapping[str, str], labs: Sequence[str]) -> dict[str, object]:
    """The order for tests.changed_host: how to change the host, and what to start then."""

    def fill(words: Sequence[str]) -> list[str]:
        return [filled(word, known) for word in words]

    study = str(Path(known["code"], STUDY.name))
    words = [word for lab in labs for word in (lab, *WORDS[lab])]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    given: dict[str, str | None] = {
        **inherited,
        "XDG_CACHE_HOME": "{work}/cache",
        "LABS_KERNELS": "{kernels}",
        "PYTHONDONTWRITEBYTECODE": "1",
        **variant.env,
    }
    return {
        "work": known["work"],
        "layers": fill(variant.layers),
        "steps": [
            {**dataclasses.asdict(step), "path": filled(step.path, known)}
            | {
                name: filled(text, known)
                for name, text in (("text", step.text), ("replaced", step.replaced))
                if text is not None
            }
            if isinstance(step, File)
            else fill(step)
            for step in variant.steps
        ],
        "prefix": fill(variant.prefix),
        "argv": fill((variant.python, study, variant.runs, *words)),
        "env": {name: filled(text, known) for name, text in given.items() if text is not None},
        "folder": filled(variant.folder, known),
        "umask": variant.umask,
    }


# Variables that concern runs: only those of the variant count.
OURS = ("LABS_", "XDG_", "PYTHON")


# --- what is found ------------------------------------------------------------------------


def runs_of(folder: Path) -> dict[str, Made]:
    """The runs in a folder by lab; Damaged if one is not as it was sealed."""
    found = {}
    for path in sorted(folder.glob(f"*/{RUN}")):
        said = json.loads(path.read_text())
        found[said["lab"]] = Made(path.parent, said["key"], verify(path.parent).files)
    return found


def differing_inputs(one: Path, other: Path) -> tuple[str, ...]:
    """The inputs that `labs runs compare` names."""
    words = ("-m", "labs.cli", "runs", "compare", str(one), str(other), "--json")
    done = subprocess.run((sys.executable, *words), cwd=ROOT, capture_output=True, text=True)
    pairs = json.loads(done.stdout)["pairs"] if done.stdout else []
    return tuple(change["name"] for pair in pairs for change in pair["inputs"])


def found_in(before: Made, after: Made | None) -> str:
    """The result of a variant for the run of one lab."""
    if after is None:
        return NO_RUN
    if after.key != before.key:
        return OTHER_KEY
    return SAME if after.files == before.files else OTHER_BYTES


def judged(
    variant: Variant,
    before: Mapping[str, Made],
    after: Mapping[str, Made],
    done: tuple[int, str],
    real_s: float,
) -> Outcome:
    """The outcome of a variant whose process ended with this exit code and these lines."""
    exit_code, said = done
    line = said.strip().splitlines()[-1] if said.strip() else f"exit code {exit_code}"
    found = {lab: found_in(one, after.get(lab)) for lab, one in before.items()}
    if exit_code == changed_host.NOT_HERE and not after:
        return Outcome(variant.name, variant.expected, {"": NOT_HERE}, line, True, real_s)
    if variant.expected == REFUSED:
        clean = exit_code == Missing.exit_code and not after and len(said.splitlines()) == 1
        kinds = {lab: REFUSED if clean else kind for lab, kind in found.items()}
        return Outcome(variant.name, REFUSED, kinds, line, clean, real_s)
    about, passed = [], True
    for lab, kind in found.items():
        must = variant.expected == OTHER_KEY and lab in variant.labs
        if kind == OTHER_KEY:
            named = differing_inputs(before[lab].folder, after[lab].folder)
            about.append(", ".join(named) or "compare names no input")
            passed &= bool(named) and (not must or set(variant.inputs) <= set(named))
        elif kind == OTHER_BYTES:
            files = before[lab].files.items() ^ after[lab].files.items()
            about.append(", ".join(sorted({name for name, _ in files})))
            passed = False
        else:
            about += [line] if kind == NO_RUN else []
            passed &= kind == SAME and not must
    text = "; ".join(dict.fromkeys(about))
    return Outcome(variant.name, variant.expected, found, text, passed, real_s)


class Hosts:
    """Performs the runs of variants in folders below `base`, and compares them with those of the
    untouched host, which come first. RunFailed if the untouched host makes none."""

    def __init__(self, base: Path, labs: Sequence[str] = LABS) -> None:
        base.chmod(0o755)
        self.base, self.labs = base, labs
        self.as_root = os.geteuid() == 0
        self._copy_what_every_user_reads()
        self.known = places(base)
        exit_code, said = self._run(UNTOUCHED, base / "untouched")
        self.before = runs_of(base / "untouched" / "runs")
        if set(self.before) != set(labs):
            raise RunFailed(f"no runs on the untouched host (exit code {exit_code}): {said}")

    def _copy_what_every_user_reads(self) -> None:
        """Copy the code and the kernel, and make a kernel with one more byte."""
        code = self.base / "code"
        shutil.copytree(ROOT / "labs", code / "labs", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(STUDY, code)
        kernel = store.find(KERNEL)
        shutil.copytree(kernel.folder, self.base / "kernels" / kernel.sha256)
        content = kernel.path.read_bytes() + b"\n"
        other = self.base / "other-kernels" / store.digest_of(kernel.path)
        shutil.copytree(kernel.folder, other)
        (other / store.PROGRAM).write_bytes(content)
        digest = store.digest_of(other / store.PROGRAM)
        record = {**store.record(other), "sha256": digest}
        (other / store.RECORD).write_text(json.dumps(record))
        other.rename(other.with_name(digest))
        for path in self.base.rglob("*"):
            path.chmod(0o755 if path.is_dir() or path.name == store.PROGRAM else 0o644)
        words = ("-m", "compileall", "-q", str(code))
        subprocess.run((inventory.python(), *words), check=True)

    def _run(self, variant: Variant, work: Path) -> tuple[int, str]:
        """Perform the runs of a variant in its own folder; the exit code, and stderr."""
        known = {**self.known, "work": str(work)}
        asked = order(variant, known, self.labs)
        for folder in (work / "home", work / "cache", Path(str(asked["folder"]))):
            folder.mkdir(parents=True, exist_ok=True)
        (work / "order.json").write_text(json.dumps(asked))
        apart = ("unshare", "--mount", "--") if self.as_root else ()
        argv = (*apart, sys.executable, changed_host.__file__, str(work / "order.json"))
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return TIMED_OUT, f"not finished after {LIMIT_S} s"
        return done.returncode, done.stderr

    def outcome(self, variant: Variant) -> Outcome:
        """Perform the runs of a variant, judge them, and remove them."""
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="variant-", dir=self.base) as folder:
            work = Path(folder)
            work.chmod(0o755)
            done = self._run(variant, work)
            runs = filled(variant.runs, {"work": folder})
            try:
                after = runs_of(Path(filled(variant.folder, {"work": folder}), runs))
            except LabError as error:
                done, after = (error.exit_code, str(error)), {}
            real_s = time.monotonic() - started
            inputs = tuple(filled(name, self.known) for name in variant.inputs)
            named = dataclasses.replace(variant, inputs=inputs)
            return judged(named, self.before, after, done, real_s)


# --- the command --------------------------------------------------------------------------


def chosen(names: Sequence[str]) -> tuple[Variant, ...]:
    """The variants with these names, or all if there are none. BadInput for an unknown name."""
    known = {variant.name: variant for variant in VARIANTS}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3, 0.3)
            raise BadInput(f'unknown variant "{name}". Similar: {", ".join(near) or "none"}')
    return tuple(known[name] for name in names) if names else VARIANTS


def outcomes(hosts: Hosts, variants: Sequence[Variant], jobs: int) -> Iterator[Outcome]:
    """The outcomes of variants in the order in which they end, `jobs` variants at a time."""
    pool = ThreadPoolExecutor(jobs)
    stopped = threading.Event()

    def one(variant: Variant) -> Outcome | None:
        return None if stopped.is_set() else hosts.outcome(variant)

    futures = [pool.submit(one, variant) for variant in variants]
    try:
        for future in as_completed(futures):
            if found := future.result():
                yield found
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.host_variants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="only this variant"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    if os.geteuid() != 0:
        raise Missing("mount namespaces need root. Run: sudo make host-variants")
    variants, found = chosen(args.only), list[Outcome]()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the folder is removed then too
    with owned_folder("labs-hosts-", Path("/var/tmp")) as base:
        hosts = Hosts(base)
        started = time.monotonic()
        for one in outcomes(hosts, variants, args.jobs):
            found.append(one)
            each_s = (time.monotonic() - started) / len(found)
            left = f"{each_s * (len(variants) - len(found)) / 60:.0f} min left"
            about = f" ({one.about})" if one.about else ""
            print(
                f"[{len(found)}/{len(variants)}, {left}] "
                f"{'' if one.passed else 'FAILED '}{one.name}: {one.verdict}{about}",
                file=sys.stderr,
                flush=True,
            )
    names = [variant.name for variant in variants]
    found.sort(key=lambda one: names.index(one.name))
    report(found, args.json)
    failed = [one.name for one in found if not one.passed]
    if failed:
        raise ResultsDiffer(f"{len(failed)} variants failed: {', '.join(failed)}")
    return 0


def report(found: Sequence[Outcome], as_json: bool) -> None:
    """Print all outcomes and how many there are of each kind."""
    kinds = [one.verdict if one.passed else "FAILED" for one in found]
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    if as_json:
        print(json.dumps({"counts": counts, "variants": [one.as_json() for one in found]}))
        return
    rows = [
        {
            "variant": one.name,
            "expected": one.expected,
            "found": one.verdict,
            "s": round(one.real_s),
            "": "" if one.passed else "FAILED",
            "about": one.about,
        }
        for one in found
    ]
    print(terminal_table(rows, tuple(rows[0])))
    print(f"{len(found)} variants:", ", ".join(f"{n} {kind}" for kind, n in counts.items()))


if __name__ == "__main__":
    try:
        with contextlib.suppress(KeyboardInterrupt):
            sys.exit(main(sys.argv[1:]))
        sys.exit(130)
    except LabError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
