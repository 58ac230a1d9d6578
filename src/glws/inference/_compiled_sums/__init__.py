"""Sums of values on the CPU, compiled. Importing this package does not import numba."""
