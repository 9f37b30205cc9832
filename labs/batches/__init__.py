"""Batches: plans over many values of a lab's parameters, and their points."""
