"""Batches: plans over many parameter values, their runs and notebooks, and reports on them."""
