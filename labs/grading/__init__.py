"""Notebooks for students, and the grading of the answers in them."""
