"""Parameters of a lab: one declaration gives flags, notebook names, help and JSON Schema."""

from labs.drive.parameters.declare import LabParameters, check, parameter

__all__ = ["LabParameters", "check", "parameter"]
