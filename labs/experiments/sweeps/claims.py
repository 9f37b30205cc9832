"""What of the lab `sweeps` only its link says."""

from labs.experiments.sweeps.socket_buffers import parameter

__all__ = ["parameter"]
