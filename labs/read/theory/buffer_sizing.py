"""How large the buffer of a link must be if many long flows share it: the square-root rule.

Source: G. Appenzeller, I. Keslassy, N. McKeown, "Sizing Router Buffers", SIGCOMM 2004, sections 2
and 3. Flows that do not lose packets at the same moments average out: the sum of n windows varies
by 1/sqrt(n) of what one window does.
"""

from __future__ import annotations

from math import erf, sqrt


def needed_bdp(flows: int) -> float:
    """The buffer in BDPs that keeps a link busy with so many Reno flows out of phase: 1/sqrt(n)."""
    return 1 / sqrt(flows)


def utilisation(flows: int, buffer_bdp: float) -> float:
    """The least share of a link that so many Reno flows out of phase use.

    The sum of their windows is taken as normally distributed, each window as uniform between 2/3
    and 4/3 of its mean. 0.9899 for 10,000 flows and a buffer of 1/sqrt(n) BDPs.
    """
    spread = (1 + buffer_bdp) / sqrt(flows)
    return erf(3 * sqrt(3) / (2 * sqrt(2)) * buffer_bdp / spread)
