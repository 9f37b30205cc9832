"""Publish an executed notebook as one HTML page."""
