"""Compiled: any weight ω(k) of the count.

Short and moderate: the recursion. Otherwise ω is cut into windows of counts, each solved in O(n) under its own tilt,
best window first. Chernoff's bound P(S = k) <= exp(K(θ) - θ k), K(θ) = log E e^{θS}, of every θ so far bounds the
contribution of the counts that are not yet in a window, so the search stops when it is negligible. A smooth ω takes one
to three windows; only an ω that undoes the decay of P(S = k) over its whole range takes many.
"""

from __future__ import annotations

import math

import numpy as np

from glws.inference._counts.compiled.fourier import (
    apply_weights,
    num_points,
    reach,
    unit_circle,
    window_law,
    window_mass,
)
from glws.inference._counts.compiled.interval import fill_posteriors, waves_of
from glws.inference._counts.compiled.numeric import Integers, Vector, kernel, summing_kernel
from glws.inference._counts.compiled.problem import fill_log_odds, finish, prepare
from glws.inference._counts.compiled.series import series_terms
from glws.inference._counts.compiled.short import SAFE_NATS, depth, weights_by_recursion
from glws.inference._counts.compiled.tilting import (
    log_normalizer,
    mean_and_variance,
    subtract_pivot,
    tilt,
    to_small_sides,
)

# The part left out of the sum is below e^-37 of it.
_NEGLIGIBLE_NATS = 37.0
# Where P_θ(S = k) is at least this share of its peak, rounding errors of 1e-16 are at most 1e-13 of it.
_TRUSTED_SHARE = 1e-3


@summing_kernel
def tighten(bound: Vector, log_mass: float, theta: float) -> None:
    """bound[k] = min(bound[k], log_mass - θ k): Chernoff's bound on the log-weight of count k."""
    for k in range(bound.size):
        candidate = log_mass - theta * k
        bound[k] = candidate if candidate < bound[k] else bound[k]


@kernel
def scout(zero: Vector, one: Vector, row: Vector, bound: Vector, gap_is_far: bool) -> None:
    """First bounds: no tilt, and tilts to 3, 9 and 27 σ on both sides."""
    fill_log_odds(zero, one, row)
    _, variance = mean_and_variance(row, 0.0)
    unit = 0.0 if gap_is_far else 1.0 / math.sqrt(max(variance, 1.0))
    for theta in (0.0, 3.0, -3.0, 9.0, -9.0, 27.0, -27.0):
        fill_log_odds(zero, one, row)
        to_small_sides(row, theta * unit)
        tighten(bound, log_normalizer(zero, one, row, theta * unit, 0.0, 0)[0], theta * unit)


@kernel
def take_weights(open_weights: Vector, law: Vector, first: int, center: int, theta: float) -> tuple[Vector, float]:
    """Tilted weights ω(k) e^{-θ(k - center)} from count `first` on, scaled by their largest; log of the scale.

    P_θ(S = k) is accurate to 1e-16 of its peak, not of itself. So counts near the peak are included; others only if the
    tilted weight is no larger than there. Included counts are closed: set to -inf.
    """
    top = open_weights[center]
    least = 0.0
    for d in range(law.size):
        least = max(least, _TRUSTED_SHARE * law[d])
    for d in range(law.size):
        if law[d] >= least:
            top = max(top, open_weights[first + d] - theta * (first + d - center))
    weights = np.zeros(law.size)
    for d in range(law.size):
        tilted = open_weights[first + d] - theta * (first + d - center)
        if tilted <= top:
            weights[d] = math.exp(tilted - top)
            open_weights[first + d] = -math.inf
    return weights, top


@kernel
def window(
    zero: Vector, one: Vector, row: Vector, open_weights: Vector, center: int, is_clean: bool, bound: Vector
) -> float:
    """Log-likelihood of the counts in the window around `center`; posteriors given that window in `row`."""
    fill_log_odds(zero, one, row)
    pivot = 0.0 if is_clean else subtract_pivot(row, center)
    theta, variance = tilt(row, float(center))
    to_small_sides(row, theta)
    normalizer, ones = log_normalizer(zero, one, row, theta, pivot, center)
    decay = theta - pivot
    tighten(bound, normalizer + decay * center, decay)
    half_width = reach(variance) + 1
    first, last = max(center - half_width, 0), min(center + half_width, row.size)
    points = num_points(variance, row.size, half_width)
    terms = series_terms(row, variance)
    waves = waves_of(row, variance, terms, int(ones) - center, points)
    cosine, sine = unit_circle(points)
    law = window_law(points, first - center, last - first + 1, waves, cosine, sine)
    weights, top = take_weights(open_weights, law, first, center, decay)
    apply_weights(points, weights, first - center, waves, cosine, sine)
    mass = window_mass(points, waves)
    fill_posteriors(row, terms, waves)
    return normalizer + top + math.log(max(mass, 0.0))


@kernel
def blend(total: float, part: float, average: Vector, row: Vector) -> float:
    """Add a window: average the posteriors by likelihood, and return the joint log-likelihood."""
    new = 1.0 / (1.0 + math.exp(total - part))
    for j in range(row.size):
        average[j] += new * (row[j] - average[j])
    return max(total, part) + math.log1p(math.exp(-abs(total - part)))


@kernel
def best_count(open_weights: Vector, bound: Vector) -> tuple[int, float]:
    """The count with the largest possible contribution, and the bound on its log-weight."""
    best, value = 0, -math.inf
    for k in range(bound.size):
        if open_weights[k] + bound[k] > value:
            best, value = k, open_weights[k] + bound[k]
    return best, value


@kernel
def weights_by_windows(zero: Vector, one: Vector, log_weights: Vector, is_clean: bool, average: Vector) -> float:
    """log Σ_k ω(k) P(S = k) and all posteriors, window by window."""
    open_weights = log_weights.copy()
    bound, row = np.full(log_weights.size, math.inf), np.empty(zero.size)
    scout(zero, one, row, bound, not is_clean)
    average[:] = 0.0
    total = -math.inf
    for _ in range(open_weights.size):  # every window closes at least its center
        center, potential = best_count(open_weights, bound)
        if not potential + math.log(open_weights.size) > total - _NEGLIGIBLE_NATS:
            break
        part = window(zero, one, row, open_weights, center, is_clean, bound)
        if part > -math.inf:
            total = blend(total, part, average, row)
    return total


@kernel
def undecided_weighted(
    zero: Vector, one: Vector, row: Vector, log_weights: Vector, is_clean: bool, table: Vector
) -> float:
    """Log-likelihood of instances that all have two possible labels; `row`: log-odds in, posteriors out."""
    n = row.size
    spread = finite_spread(log_weights)
    if spread == -math.inf:
        return -math.inf
    if n == 0:
        only: float = log_weights[0]
        return only
    if n + 4 <= table.shape[0] and depth(row) + spread < SAFE_NATS:
        to_small_sides(row, 0.0)
        return log_normalizer(zero, one, row, 0.0, 0.0, 0)[0] + weights_by_recursion(row, log_weights, table)
    return weights_by_windows(zero, one, log_weights, is_clean, row)


@kernel
def finite_spread(log_weights: Vector) -> float:
    """Largest minus smallest log-weight among those that are not -inf; -inf when there is none."""
    lowest, highest = math.inf, -math.inf
    for k in range(log_weights.size):
        if log_weights[k] > -math.inf:
            lowest = min(lowest, log_weights[k])
            highest = max(highest, log_weights[k])
    return highest - lowest


@kernel
def weighted_batch(
    log_zero: Vector,
    log_one: Vector,
    starts: Integers,
    lengths: Integers,
    log_weights: Vector,
    short: int,
    log_likelihood: Vector,
    marginals: Vector,
) -> None:
    """Solve all problems of a batch, each a range of rows; those of up to `short` instances by recursion."""
    longest = 0
    for b in range(lengths.size):
        longest = max(longest, lengths[b])
    widest = min(longest, short)
    table = np.empty((widest + 4, widest + 2))
    for b in range(lengths.size):
        i, j = starts[b], starts[b] + lengths[b]
        problem_zero, problem_one, answer = log_zero[i:j], log_one[i:j], marginals[i:j]
        zero, one, row, places, is_clean, certain, total = prepare(problem_zero, problem_one, answer)
        if total > -math.inf:
            reachable = log_weights[b, certain : certain + row.size + 1]
            total += undecided_weighted(zero, one, row, reachable, is_clean, table)
        finish(total, problem_zero, row, places, is_clean, answer)
        log_likelihood[b] = total
