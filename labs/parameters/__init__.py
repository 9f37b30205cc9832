"""A lab's parameters, declared once: flags, notebook names, help and schema come from that."""

from labs.parameters.base import LabParameters
from labs.parameters.declare import check, parameter

__all__ = ["LabParameters", "check", "parameter"]
