"""Compiled: one problem of the batch at a time, without its decided instances.

A problem is *clean* if all its log-odds are moderate; it is then solved in place. Otherwise the instances with two
possible labels are copied together and the others are settled at once.
"""

from __future__ import annotations

import math

import numpy as np

from glws.inference._counts.compiled.numeric import Integers, Vector, kernel, summing_kernel
from glws.inference._counts.compiled.tilting import FAR

# Log-potentials beyond this are read as this: sums of a billion of them stay finite.
LARGEST = 1e290


@summing_kernel
def fill_log_odds(zero: Vector, one: Vector, gap: Vector) -> bool:
    """gap = log-odds; true when the problem is clean (NaN and infinities are not)."""
    unclean = 0
    for j in range(zero.size):
        z = one[j] - zero[j]
        gap[j] = z
        is_clean = (abs(z) <= FAR) & (abs(zero[j]) <= LARGEST)
        unclean += 0 if is_clean else 1
    return unclean == 0


@kernel
def bounded(value: float) -> float:
    """The log-potential kept within ±LARGEST, except -inf, which is the zero of log space."""
    if value == -math.inf:
        return value
    return min(max(value, -LARGEST), LARGEST)


@kernel
def set_aside(
    zero: Vector, one: Vector, soft_zero: Vector, soft_one: Vector, places: Integers
) -> tuple[int, int, float]:
    """Copy the undecided instances; return their number, the number certainly counted, log-potentials of the others.

    The last is -inf if an instance has no possible label, NaN if a potential is NaN.
    """
    n = 0
    certain = 0
    settled = 0.0
    for j in range(zero.size):
        a, b = bounded(zero[j]), bounded(one[j])
        if math.isnan(a) or math.isnan(b):
            settled = math.nan
        elif a == -math.inf or b == -math.inf:
            settled += max(a, b)
            certain += 1 if a == -math.inf else 0
        else:
            soft_zero[n], soft_one[n], places[n] = a, b, j
            n += 1
    return n, certain, settled


@kernel
def prepare(zero: Vector, one: Vector, marginals: Vector) -> tuple[Vector, Vector, Vector, Integers, bool, int, float]:
    """The undecided part of a problem: both log-potentials, log-odds, places, cleanness; then as `set_aside`.

    The log-odds of a clean problem are in `marginals`, and it has no places.
    """
    is_clean = fill_log_odds(zero, one, marginals)
    size = 0 if is_clean else zero.size
    soft_zero, soft_one, places = np.empty(size), np.empty(size), np.empty(size, np.int64)
    if is_clean:
        return zero, one, marginals, places, True, 0, 0.0
    n, certain, settled = set_aside(zero, one, soft_zero, soft_one, places)
    gap = np.empty(n)
    fill_log_odds(soft_zero[:n], soft_one[:n], gap)
    return soft_zero[:n], soft_one[:n], gap, places[:n], False, certain, settled


@kernel
def finish(total: float, zero: Vector, posterior: Vector, places: Integers, is_clean: bool, marginals: Vector) -> None:
    """Write the marginals: posteriors of the undecided, 0 or 1 for the decided; 0 if impossible, NaN after NaN."""
    if not is_clean:
        for j in range(zero.size):
            marginals[j] = 1.0 if zero[j] == -math.inf else 0.0
        for i in range(posterior.size):
            marginals[places[i]] = posterior[i]
    if math.isnan(total) or total == -math.inf:
        for j in range(zero.size):
            marginals[j] = math.nan if math.isnan(total) else 0.0
