"""Compiled: between `low` and `high` instances are counted."""

from __future__ import annotations

import math

import numpy as np

from glws.inference._counts.compiled.fourier import (
    apply_geometric,
    make_waves,
    num_points,
    polynomial,
    posteriors_by_polynomial,
    posteriors_by_sums,
    power_sums,
    psi_by_power_sums,
    psi_by_product,
    reach,
    rotate,
    window_mass,
)
from glws.inference._counts.compiled.numeric import Integers, Vector, kernel, summing_kernel
from glws.inference._counts.compiled.problem import finish, prepare
from glws.inference._counts.compiled.series import series_terms
from glws.inference._counts.compiled.short import SAFE_NATS, depth, interval_by_recursion
from glws.inference._counts.compiled.tilting import (
    log_normalizer,
    mean_and_variance,
    slack,
    subtract_pivot,
    tilt,
    to_small_sides,
)


@kernel
def waves_of(small: Vector, variance: float, terms: int, shift: int, points: int) -> Vector:
    """The frequencies that matter, with ψ at each; by a power series with `terms` terms, or by products."""
    waves = make_waves(points, variance)
    if terms > 0:
        sums = np.empty((2, terms + 1))
        power_sums(small, sums)
        psi_by_power_sums(sums, shift, points, waves)
    else:
        psi_by_product(small, waves)
        rotate(points, shift, waves)
    return waves


@kernel
def fill_posteriors(row: Vector, terms: int, waves: Vector) -> None:
    """Replace signed small sides by posteriors, from the terms of the window sum."""
    if terms > 0:
        even, odd = np.empty(terms + 1), np.empty(terms + 1)
        polynomial(waves, even, odd)
        posteriors_by_polynomial(row, even, odd)
    else:
        posteriors_by_sums(row, waves)


@kernel
def interval_by_frequencies(
    row: Vector, variance: float, ones: int, low: int, high: int, center: int, theta: float
) -> float:
    """log Σ_k e^{-θ(k - center)} P_θ(S = k) over low <= k <= high, and all posteriors, in O(n)."""
    half_width = min(max(high - center, center - low), reach(variance) + 1)
    low, high = max(low, center - half_width), min(high, center + half_width)
    points = num_points(variance, row.size, half_width)
    terms = series_terms(row, variance)
    waves = waves_of(row, variance, terms, ones - center, points)
    if high > low and theta < 0.0:  # the window ends at its center and decays downwards
        apply_geometric(points, center - high, high - low, -theta, -1, waves)
    elif high > low:
        apply_geometric(points, low - center, high - low, theta, 1, waves)
    mass = window_mass(points, waves)
    fill_posteriors(row, terms, waves)
    return math.log(max(mass, 0.0))


@kernel
def choose_tilt(gap: Vector, low: int, high: int, is_clean: bool) -> tuple[float, float, float, int]:
    """Pivot, θ, variance and center: no tilt if the mean is inside, else to the nearer end."""
    center = low
    if low < high:
        mean, variance = mean_and_variance(gap, 0.0)
        center = min(max(round(mean), low), high)
        if abs(mean - center) <= max(slack(variance), 0.5):
            return 0.0, 0.0, variance, center
    pivot = 0.0 if is_clean else subtract_pivot(gap, center)
    theta, variance = tilt(gap, float(center))
    return pivot, theta, variance, center


@summing_kernel
def all_alike(log_potentials: Vector, label: float, row: Vector) -> float:
    """Give every instance the same label; return the sum of its log-potentials."""
    total = 0.0
    for j in range(row.size):
        row[j] = label
        total += log_potentials[j]
    return total


@kernel
def undecided_interval(
    zero: Vector, one: Vector, row: Vector, low: int, high: int, is_clean: bool, table: Vector
) -> float:
    """Log-likelihood of instances that all have two possible labels; `row`: log-odds in, posteriors out."""
    n = row.size
    low, high = max(low, 0), min(high, n)
    if low > high:
        return -math.inf
    if high == 0 or low == n:
        return all_alike(zero if high == 0 else one, 0.0 if high == 0 else 1.0, row)
    is_short = n + 4 <= table.shape[0]
    if is_short and depth(row) < SAFE_NATS:
        to_small_sides(row, 0.0)
        return log_normalizer(zero, one, row, 0.0, 0.0, low)[0] + interval_by_recursion(row, low, high, low, 0.0, table)
    pivot, theta, variance, center = choose_tilt(row, low, high, is_clean)
    to_small_sides(row, theta)
    normalizer, ones = log_normalizer(zero, one, row, theta, pivot, center)
    if is_short:
        return normalizer + interval_by_recursion(row, low, high, center, theta - pivot, table)
    return normalizer + interval_by_frequencies(row, variance, int(ones), low, high, center, theta - pivot)


@kernel
def interval_batch(
    log_zero: Vector,
    log_one: Vector,
    starts: Integers,
    lengths: Integers,
    low: Integers,
    high: Integers,
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
            total += undecided_interval(zero, one, row, low[b] - certain, high[b] - certain, is_clean, table)
        finish(total, problem_zero, row, places, is_clean, answer)
        log_likelihood[b] = total
