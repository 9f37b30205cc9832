from __future__ import annotations
from typing import Any
from labs.runs.run import Run
def results(run: Run) -> dict[str, Any]:
    import re
    t = run.text("client/ab.txt") if "client/ab.txt" in run.seal.files else run.text("client/ask.json")
    m = re.search(r"Time per request:\s+(\S+) \[ms\] \(mean\)", t)
    return {"condition": run.condition, "mean": float(m[1]) if m else None, "size": sum(run.file(f).stat().st_size for f in run.seal.files)}
