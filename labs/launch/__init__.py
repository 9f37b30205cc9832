"""Determines which runs of a study are missing, and performs them."""
