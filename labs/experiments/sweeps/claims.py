"""What of the lab `sweeps` only its link says."""

from labs.experiments.sweeps.results import parameter

__all__ = ["parameter"]
