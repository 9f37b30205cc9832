"""Graded exercises: what a lab declares of each, and how an answer is judged."""
