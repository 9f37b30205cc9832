"""What a notebook calls beside the study and the charts, as `labs.nagle.NAME`."""

from __future__ import annotations

from labs.experiments.nagle.narrative import describe_requests
from labs.experiments.nagle.request_tables import beside_wireshark, sequences, waits
from labs.experiments.nagle.requests import (
    own_requests,
    own_table,
    packets_of,
    requests_of,
    typical,
)
from labs.experiments.nagle.settings import NGINX_HEAD_BYTES
from labs.read.theory.nagle import answer, sent, wait

__all__ = [
    "NGINX_HEAD_BYTES",
    "answer",
    "beside_wireshark",
    "describe_requests",
    "own_requests",
    "own_table",
    "packets_of",
    "requests_of",
    "sent",
    "sequences",
    "typical",
    "wait",
    "waits",
]
