"""The figures that the exercises of the notebooks about buffers name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from labs.experiments.buffers.conditions import (
    ADV_BUFFER_BDP,
    BOTH_RAISED,
    DEFAULT,
    LOSS_DELAY_MS,
    Parameters,
)
from labs.experiments.buffers.results import of_client
from labs.guest.units import KIB, MIB
from labs.read.exercises import exercise
from labs.read.readings.bulk_transfer import predicted
from labs.read.theory.advice import advise
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s, mathis_bytes_s, payload_share
from labs.read.theory.bulk import Transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.kernels import DEFAULT_WMEM, default_core_max_bytes, default_rmem
from labs.read.theory.windows import receive_window_bytes, send_bound_bytes

LINK = Parameters()
DELAYS_MS = (22.0, 26.0, 30.0)
"""Delays around the one at which the default buffers stop being sufficient."""
BUFFERS_MIB = (41.0, 45.6)
"""Sizes around the smallest buffer that fills the link."""
Sizes = tuple[int, int, int]
OLD, NEW = "6.1", "7.2"
LOSS_PCT = 0.1
"""The loss of the exercise, at which losses limit reno and not the link."""
ADV_BYTES = round(ADV_BUFFER_BDP * bdp_bytes(LINK.rate_mbit, LINK.delay_ms) / KIB) * KIB


class Figures(exercise.Figures):
    """What the theory says of the link that is given, with default buffers unless named."""

    payload_share = payload_share()
    mathis_mib_s = mathis_bytes_s(LOSS_PCT, LOSS_DELAY_MS) / MIB
    new_buffer_mib = default_rmem(NEW)[-1] / MIB
    new_window_mib = receive_window_bytes(default_rmem(NEW)[-1], NEW) / MIB
    core_6_1_kib = default_core_max_bytes(OLD) / KIB
    core_7_2_kib = default_core_max_bytes(NEW) / KIB

    @property
    def window_bytes(self) -> float:
        return receive_window_bytes(default_rmem(self.kernel)[-1], self.kernel)

    @property
    def admitted_bytes(self) -> float:
        """The payload that the smaller buffer admits."""
        return min(self.window_bytes, send_bound_bytes(DEFAULT_WMEM[-1], self.kernel))

    @property
    def needed_mib(self) -> float:
        """The smallest buffer, for both ends, that fills the link."""
        needed = advise(self.number("rate_mbit"), self.number("delay_ms"), self.kernel)
        return max(needed.receive_bytes, needed.send_bytes) / MIB

    @property
    def default_limit(self) -> str:
        return self._download(default_rmem(self.kernel), DEFAULT_WMEM).bound

    @property
    def wmem_limit(self) -> str:
        raised = (*DEFAULT_WMEM[:2], round(LINK.buffer_mib * MIB))
        return self._download(default_rmem(self.kernel), raised).bound

    @property
    def at_other_delays(self) -> str:
        """What runs of `default` reached there."""
        return self._reached(DEFAULT, "delay_ms", DELAYS_MS, "at {:g} ms")

    @property
    def at_other_sizes(self) -> str:
        return self._reached(BOTH_RAISED, "buffer_mib", BUFFERS_MIB, "{:g} MiB:")

    def _download(self, rmem: Sizes, wmem: Sizes, scale: int = 1) -> Transfer:
        """What the model says of a download with these buffers."""
        flow = Flow(
            rate_mbit=self.number("rate_mbit"),
            rtt_ms=self.number("delay_ms"),
            kernel=self.kernel,
            tcp_rmem=rmem,
            tcp_wmem=wmem,
            adv_win_scale=scale,
            **of_client(),
        )
        return predicted(flow, LINK.transfer_mib * MIB)

    def _with_scale(self, scale: int) -> float:
        """The goodput with a receive buffer of one BDP, and a large send buffer."""
        rmem, wmem = (ADV_BYTES,) * 3, (4 * ADV_BYTES,) * 3
        return self._download(rmem, wmem, scale).steady_bytes_s / MIB

    scale_2_mib_s = property(partial(_with_scale, scale=2))
    scale_1_mib_s = property(partial(_with_scale, scale=1))
    scale_minus_2_mib_s = property(partial(_with_scale, scale=-2))

    def _reached(self, condition: str, name: str, values: Sequence[float], words: str) -> str:
        """The steady goodput in % of the link's, at the values of a parameter that have a run."""
        text = ""
        for value in values:
            run = self.runs.run(condition, **{**self.given, name: value})
            if run is not None:
                speed = self.runs.column(run, "steady_mib_s") or 0.0
                line = line_goodput_bytes_s(run.link.measured.rate_mbit or LINK.rate_mbit)
                text += f"; {words.format(value)} {100 * speed * MIB / line:.0f} % of the link"
        return text
