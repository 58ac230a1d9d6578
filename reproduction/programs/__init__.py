"""Training through programs: addition of handwritten numbers, and sums of handwritten digits.

`python -m reproduction programs` runs what is missing and rewrites `docs/measurements/programs.md`.
"""
