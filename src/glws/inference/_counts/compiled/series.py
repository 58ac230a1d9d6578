"""Compiled: the number of terms that the power series of the characteristic function needs (see `fourier`)."""

from __future__ import annotations

import math

import numpy as np

from glws.inference._counts.compiled.numeric import Vector, kernel, summing_kernel
from glws.inference._counts.thresholds import COMPILED_SMOOTH_LENGTH, COMPILED_SMOOTH_VARIANCE

MAX_TERMS = 32
# Truncated parts are below e^-41.
_TERM_NATS = 41.0


def _variance_enough_for(terms: int) -> float:
    """Smallest variance V for which `terms` terms of the series suffice.

    The remainder is at most 2V |u|^{K+1} 2^-K / (K+1) against |φ| <= exp(-V |u|²/2), largest at |u|² = (K+1)/V.
    """

    def log_rest(variance: float) -> float:
        order = terms + 1
        log_power = 0.5 * order * (math.log(order / variance) - 1.0)
        return log_power - terms * math.log(2.0) + math.log(2.0 * variance / order)

    low, high = 1.0, 1e30
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if log_rest(middle) > -_TERM_NATS else (low, middle)
    return high


_ENOUGH = np.array([np.inf, np.inf, np.inf, *(_variance_enough_for(terms) for terms in range(3, MAX_TERMS + 1))])


@kernel
def num_terms(variance: float) -> int:
    """Number of terms of the power series for this variance."""
    terms = 3
    while terms < MAX_TERMS and _ENOUGH[terms] > variance:
        terms += 1
    return terms


@kernel
def log_rest(terms: int, variance: float, largest: float) -> float:
    """Log of the remainder after `terms` terms (see `_variance_enough_for`), for small sides up to `largest`."""
    order = terms + 1
    square = min(order / variance, 4.0)
    log_power = 0.5 * (order * math.log(square) - variance * square)
    return log_power + terms * math.log(largest) + math.log(2.0 * variance / order)


@kernel
def series_terms(small: Vector, variance: float) -> int:
    """Number of terms of the power series for these instances; 0 if the loop over frequencies is faster.

    A large variance leaves only small |u|; if all small sides are small, as for a count near 0, their powers vanish
    anyway.
    """
    if variance > COMPILED_SMOOTH_VARIANCE:
        return num_terms(variance)
    largest = largest_side(small)
    if small.size < COMPILED_SMOOTH_LENGTH or not log_rest(MAX_TERMS, variance, largest) <= -_TERM_NATS:
        return 0
    low, high = 2, MAX_TERMS
    while high > low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log_rest(middle, variance, largest) <= -_TERM_NATS else (middle, high)
    return high


@summing_kernel
def largest_side(small: Vector) -> float:
    """max_j a_j."""
    largest = 0.0
    for j in range(small.size):
        largest = max(largest, abs(small[j]))
    return largest
