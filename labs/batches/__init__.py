"""Batches: many points of a lab, the index of their results, and reports about them."""
