"""A slow reverse path: how many ACKs the forward path produces, and how many fit.

Source: RFC 3449 sections 1 and 3.1, after T. V. Lakshman, U. Madhow, B. Suter, "Window-based Error
Recovery and Flow Control with a Slow Acknowledgement Channel", INFOCOM 1997: the normalised
bandwidth ratio k is the ratio of the rates divided by that of the sizes of data packets and ACKs.
"""

from __future__ import annotations

from labs.drive.testbed.link import FRAME_BYTES, MSS_BYTES
from labs.drive.units import bytes_per_second

ACK_BYTES = 66
"""An ACK as a shaper counts it: Ethernet (14), IPv4 (20), TCP with timestamps (32)."""
SEGMENTS_PER_ACK = 2
"""RFC 5681 section 4.2; a receiver that coalesces segments acknowledges more at once."""


def bandwidth_ratio(forward_mbit: float, back_mbit: float) -> float:
    """The normalised bandwidth ratio k. If it exceeds the segments per ACK, ACKs fill the reverse
    path first; 8 for 10 Mbit/s forward and 0.054 Mbit/s back."""
    return (forward_mbit / back_mbit) / (FRAME_BYTES / ACK_BYTES)


def clocked_goodput_bytes_s(back_mbit: float, segments_per_ack: float = SEGMENTS_PER_ACK) -> float:
    """The goodput if each ACK that the reverse path carries acknowledges so many full segments."""
    return bytes_per_second(back_mbit) / ACK_BYTES * segments_per_ack * MSS_BYTES
