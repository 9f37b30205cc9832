"""A lab's parameters, declared once: flags, notebook names, help and schema come from that."""

from labs.drive.parameters.declare import LabParameters, check, parameter

__all__ = ["LabParameters", "check", "parameter"]
