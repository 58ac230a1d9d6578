"""Measurements of speed and memory, next to peers; not part of the package."""
