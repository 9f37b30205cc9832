"""The kernels of the laboratory: built, kept, found, checked, booted."""
