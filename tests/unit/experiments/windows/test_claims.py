"""Article 4 judged by runs on two kernels, and by what they cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas

from labs.catalog import find
from labs.experiments.windows.conditions import PATCHED
from labs.experiments.windows.results import Results, article
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, judges_of
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, NOT_JUDGED, Verdict
from labs.read.runs.archive import run_folders, unpacked
from labs.read.runs.recorded import folder as data_folder
from labs.read.runs.run import Run, open_run
from tests.made_verdicts import verdicts
from tests.real_runs import windows_run, windows_study, with_file

LAB = find("windows")
LEDGER = article()
JUDGES = judges_of(LAB)


@cache
def judged(kernel: str = "6.1") -> Mapping[str, Verdict]:
    return {verdict.id: verdict for verdict in verdicts(LAB, windows_study(kernel).runs)}


def verdict_of(claim: str | Claim, runs: Mapping[str, Run]) -> Verdict:
    chosen = LEDGER.claim(claim) if isinstance(claim, str) else claim
    return judge(chosen, Evidence(LAB, runs), JUDGES, LEDGER.parameters)


def measured(id_: str, kernel: str = "6.1") -> Any:
    return judged(kernel)[id_].measured


def test_judged_thereon_a_machine_need_no_sample_of_each_packet() -> None:
    """In real time packets arrive together: what is queued is judged, each packet is not."""
    folder = unpacked(data_folder() / "windows-witnesses.tar.xz")
    runs = {run.condition: run for run in map(open_run, run_folders(folder))}
    judged_there = {id_: verdict_of(id_, runs) for id_ in (claim.id for claim in LEDGER.claims)}
    holding = {id_ for id_, verdict in judged_there.items() if verdict.verdict == HOLDS}
    assert holding == {"A4.1", "A4.2", "A4.3", "A4.15", "A4.17a"}
    assert "have no sample of their own" in judged_there["A4.8"].reason


def test_teeth_are_rises_of_at_least_two_packets_after_a_fall() -> None:
    # The window left falls by 1,000 per packet, and rises by 3,000, 1,000 and 4,000.
    edges = [8000, 8000, 12000, 12000, 14000, 14000, 19000, 21000]
    assert results_of(edges, [0] * 8).teeth == [3000, 4000]
    assert results_of([8000] * 5, [0] * 5).teeth == []


def patched_run() -> Run:
    """The recorded run with the patched kernel."""
    folder = unpacked(data_folder() / "windows-patched.tar.xz")
    (run,) = map(open_run, run_folders(folder))
    return run


def test_patched_kernel_opens_the_window_at_once() -> None:
    """About 1 MiB and 1,800 packets; only the digest tells that a kernel has the patch."""
    verdict = verdict_of("A4.11b", {PATCHED: patched_run()})
    assert verdict.verdict == HOLDS
    assert verdict.measured == {"first window": 1_026_048, "packets": 1825}
    plain = verdict_of("A4.11b", {PATCHED: windows_run("initrwnd")})
    assert plain.verdict == NOT_JUDGED and "9d7d74783700" in plain.reason
    digest = windows_run("initrwnd").inputs["kernel"]["digest"]
    patched = {PATCHED: {"kernel_digest": [digest[:12]]}}
    claim = replace(LEDGER.claim("A4.11b"), requires=patched)
    assert verdict_of(claim, {PATCHED: windows_run("initrwnd")}).verdict == DIFFERS


def test_metadata_per_packet_is_measured_on_the_booted_kernel(tmp_path: Path) -> None:
    """sizeof(struct sk_buff), rounded up to 256, and of skb_shared_info, 320, on x86-64; here 64
    more, as a larger structure would have."""
    run = windows_run("article-scale1")
    assert measured("A4.14") == 576
    assert "1,280, of which 704 are room" in judged()["A4.14"].reason
    name = "server/truesizes.csv"
    text = run.text(name)
    header, *rows = text.splitlines()
    pairs = [tuple(map(int, row.split(","))) for row in rows]
    larger = "\n".join([header, *(f"{payload},{memory + 64}" for payload, memory in pairs), ""])
    verdict = verdict_of("A4.14", {"article-scale1": with_file(run, tmp_path, name, text, larger)})
    assert verdict.verdict == DIFFERS and verdict.measured == 640


def results_of(edges: list[int], ssthresh: list[int]) -> Results:
    """The results of packets of 1,000 bytes with these right edges."""
    count = len(edges)
    results = Results(windows_run("article-scale1"))
    results.table = pandas.DataFrame(
        {
            "packet": range(1, count + 1),
            "seq": [1 + 1000 * place for place in range(count)],
            "payload_bytes": [1000] * count,
            "end": [1001 + 1000 * place for place in range(count)],
            "window_left_bytes": [edge - 1000 * (place + 1) for place, edge in enumerate(edges)],
            "rcv_ssthresh_bytes": ssthresh,
        }
    )
    return results


def test_longest_pause_is_between_two_updates() -> None:
    edges = [8000, 9000, 9000, 9000, 9000, 9500, 9500, 9500]
    assert results_of(edges, [0] * 8).pause == (3, 6)
    assert results_of([8000] * 4, [0] * 4).pause == (0, 0)


def test_growth_segments_per_packet() -> None:
    """Of 1,024 bytes, the MSS of the run."""
    assert results_of([9000] * 4, [1024, 3072, 5120, 5120]).growth_segments == 2.0
    assert results_of([9000] * 2, [5000, 4000]).growth_segments == 0.0
