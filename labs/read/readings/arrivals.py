"""When the payload of a bulk transfer arrived, from the client's capture."""

from __future__ import annotations

from labs.errors import Damaged
from labs.read.capture.reader import read
from labs.read.runs.run import Run
from labs.read.stats.arrivals import Arrivals, of_arrivals


def arrivals(run: Run) -> Arrivals:
    """The transfer in the client's capture: the data of the connection with the most of it, up to
    the bytes that the condition transfers.

    Payload that arrives twice counts once. Damaged if the capture has no payload.
    """
    path = run.capture("client")
    if path is None:
        raise Damaged(f"{run.name} has no capture of the client. Repeat it with --fresh")
    segments = read(path)
    data = segments[(segments["direction"] == 1) & (segments["payload_bytes"] > 0)]
    if data.empty:
        raise Damaged(f"{path} has no payload from the server. Repeat the run with --fresh")
    most = data.groupby("connection")["payload_bytes"].sum().idxmax()
    transfer = data[data["connection"] == most]
    had_bytes = (transfer["seq_rel"] + transfer["payload_bytes"]).cummax() - 1
    wanted = run.condition_asked.settings.get("transfer_bytes")
    return of_arrivals(
        transfer["time_ns"].tolist(),
        had_bytes.tolist(),
        wanted if isinstance(wanted, int) else None,
    )
