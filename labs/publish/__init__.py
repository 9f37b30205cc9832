"""Publish notebooks as pages, a site or a bundle."""
