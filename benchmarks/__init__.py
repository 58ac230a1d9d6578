"""Measurements of speed and memory, next to other libraries; not part of the package."""
