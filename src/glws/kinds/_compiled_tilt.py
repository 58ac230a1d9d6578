"""The search for θ of an expected count, compiled: the loop of `expected_count`, group by group.

Importing this module imports numba; nothing does so before the first answer.
"""

from __future__ import annotations

import math

from glws.inference._joint.compiling import Floats, kernel


@kernel
def sums(odds: Floats, theta: float) -> tuple[float, float]:
    """Σ σ(odds + θ) and Σ σ (1 - σ); what is NaN does not count."""
    found, slope = 0.0, 0.0
    for value in odds:
        if value == value:
            part = 1.0 / (1.0 + math.exp(-(value + theta)))
            found += part
            slope += part * (1.0 - part)
    return found, slope


@kernel
def next_theta(theta: float, share: float, goal: float, slope: float, low: float, high: float) -> float:
    """Newton's step for the logit of the mean; the middle where it leaves the bracket."""
    if 0.0 < share < 1.0 and slope > 0.0:
        ahead = theta + (goal - math.log(share / (1.0 - share))) * share * (1.0 - share) / slope
        if low < ahead < high:
            return ahead
    return low / 2 + high / 2


@kernel
def group_tilt(odds: Floats, number: float, goal: float, low: float, high: float, steps: int) -> float:
    """θ of one group."""
    theta = low / 2 + high / 2
    wanted = 1.0 / (1.0 + math.exp(-goal))
    for _ in range(steps):
        found, slope = sums(odds, theta)
        share, slope = found / number, slope / number
        if abs(share - wanted) < 1e-15 + 1e-14 * slope:
            break
        if share <= wanted:
            low = theta
        if share >= wanted:
            high = theta
        theta = next_theta(theta, share, goal, slope, low, high)
    return theta


@kernel
def tilt_batch(odds: Floats, sides: Floats, steps: int, theta: Floats) -> None:
    """All groups, one after the other. Instances that are not free have odds NaN; of each group the sides are the
    number of free ones, the logit of the share that is wanted, and the bracket of θ."""
    for group in range(theta.size):
        number, goal, low, high = sides[group]
        theta[group] = group_tilt(odds[group], max(number, 1.0), goal, low, high, steps)
