"""Perform published runs again and compare them, and the other parts of a bundle, as recorded."""
