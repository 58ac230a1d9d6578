"""Compiled: the tilt, and the instances under it.

A tilt θ adds θ to every log-odds: x_j = z_j + θ, r_j = σ(x_j). It changes the law of the count S, not its law given
S = k, so θ is arbitrary; the best one puts the mean of S where the weight is, and then nothing underflows.

Log-odds are `gap`; a tilted instance is stored as its *signed small side*: with a = min(r, 1-r), it is +a if r = a and
-a if r = 1-a. It loses no digits however close r comes to 0 or 1.
"""

from __future__ import annotations

import math

from glws.inference._counts.compiled.numeric import Vector, exp_minus_abs, kernel, summing_kernel

# Log-odds beyond this leave too few digits for θ: the search then runs around a pivot.
FAR = 1e4
# Groups longer than this are first searched on a sample of between 1 and 2 times SAMPLE instances.
LONG = 16384
SAMPLE = 4096
_MAX_STEPS = 200
_NEWTON_STEPS = 12


@summing_kernel
def mean_and_variance(gap: Vector, theta: float) -> tuple[float, float]:
    """Mean and variance of S under the tilt: Σ r_j and Σ r_j (1 - r_j)."""
    mean = 0.0
    variance = 0.0
    for j in range(gap.size):
        x = gap[j] + theta
        e = exp_minus_abs(x)
        large = 1.0 / (1.0 + e)
        small = e * large
        mean += large if x > 0 else small
        variance += small * large
    return mean, variance


@kernel
def slack(variance: float) -> float:
    """Tolerance of the mean: a quarter of σ costs no accuracy."""
    return 0.02 + 0.25 * math.sqrt(variance)


@kernel
def newton_step(mean: float, variance: float, target: float, n: int) -> float:
    """Newton's step for logit(mean/n) = logit(target/n), which is nearly linear in θ; infinite if flat."""
    if not 0.0 < mean < n or variance <= 0.0:
        return math.inf
    aim = min(max(target, 0.01), n - 0.01)
    distance = math.log(aim / (n - aim)) - math.log(mean / (n - mean))
    return distance * mean * (1.0 - mean / n) / variance


@kernel
def search(gap: Vector, target: float, theta: float) -> tuple[float, float]:
    """θ with |mean - target| <= slack, and the variance there: Newton, else doubling and bisection."""
    low, high = -math.inf, math.inf
    stride = 4.0
    variance = 0.0
    for step in range(_MAX_STEPS):
        mean, variance = mean_and_variance(gap, theta)
        if abs(mean - target) <= slack(variance):
            break
        if mean < target:
            low = theta
        else:
            high = theta
        proposal = theta + newton_step(mean, variance, target, gap.size)
        if step < _NEWTON_STEPS and abs(proposal - theta) <= stride and low < proposal < high:
            theta = proposal
        elif math.isinf(low) or math.isinf(high):
            theta += stride if math.isinf(high) else -stride
        else:
            theta = 0.5 * (low + high)
        stride *= 2.0
    return theta, variance


@kernel
def tilt(gap: Vector, target: float) -> tuple[float, float]:
    """θ that brings the mean of S to `target`, within `slack`, and the variance of S there."""
    n = gap.size
    start = 0.0
    if n > LONG:
        sample = gap[:: n // SAMPLE].copy()
        start, _ = search(sample, target * sample.size / n, 0.0)
    return search(gap, target, start)


@kernel
def partition(values: Vector, first: int, last: int) -> tuple[int, int]:
    """Hoare's partition of values[first .. last] around its middle one: up to `right` none is larger, from `left` on
    none is smaller, and what lies between equals it.
    """
    middle = values[(first + last) // 2]
    left, right = first, last
    while left <= right:
        while values[left] < middle:
            left += 1
        while values[right] > middle:
            right -= 1
        if left <= right:
            values[left], values[right] = values[right], values[left]
            left += 1
            right -= 1
    return left, right


@kernel
def select(values: Vector, place: int) -> float:
    """The value that sorting would bring to `place`; reorders the values."""
    first, last = 0, values.size - 1
    while first < last:
        left, right = partition(values, first, last)
        if place <= right:
            last = right
        elif place >= left:
            first = left
        else:
            break
    chosen: float = values[place]
    return chosen


@kernel
def subtract_pivot(gap: Vector, target: int) -> float:
    """Subtract the target-th largest log-odds from all, and return it: for log-odds too large for θ's digits.

    Around the target-th largest, |θ| <= log n + 4 always suffices, so θ keeps all its digits, and differences of nearby
    log-odds are exact in floating point.
    """
    n = gap.size
    pivot = select(gap.copy(), min(max(n - target, 0), n - 1))
    for j in range(n):
        gap[j] -= pivot
    return pivot


@summing_kernel
def to_small_sides(row: Vector, theta: float) -> None:
    """Replace the log-odds by the signed small sides under θ."""
    for j in range(row.size):
        x = row[j] + theta
        e = exp_minus_abs(x)
        a = e / (1.0 + e)
        row[j] = -a if x > 0 else a


@summing_kernel
def chosen_sum(zero: Vector, one: Vector, small: Vector) -> tuple[float, float]:
    """Sum of the log-potentials of the more likely labels, and how many of these labels are 1."""
    total = 0.0
    ones = 0.0
    for j in range(small.size):
        is_one = small[j] < 0
        total += one[j] if is_one else zero[j]
        ones += 1.0 if is_one else 0.0
    return total, ones


@summing_kernel
def product_of_large_sides(small: Vector) -> float:
    """Π max(r, 1-r) over one block, each factor at least 1/2."""
    product = 1.0
    for j in range(small.size):
        product *= 1.0 - abs(small[j])
    return product


@kernel
def log_large_sides(small: Vector) -> float:
    """Σ log max(r, 1-r): one logarithm per 512 instances, whose product is at least 2^-512."""
    total = 0.0
    for start in range(0, small.size, 512):
        total += math.log(product_of_large_sides(small[start : start + 512]))
    return total


@kernel
def log_normalizer(
    zero: Vector, one: Vector, small: Vector, theta: float, pivot: float, center: int
) -> tuple[float, float]:
    """log of (Σ over labelings with S = center of the potentials) / P_θ(S = center), and the number of r_j > 1/2.

    Σ_j [r_j > 1/2 ? log_one_j : log_zero_j] - Σ_j log max(r_j, 1-r_j) + (θ - pivot)(#{r_j > 1/2} - center):
    no difference of large numbers, unlike Σ softplus(x_j) - softplus(z_j).
    """
    total, ones = chosen_sum(zero, one, small)
    excess = ones - center
    return total - log_large_sides(small) + theta * excess - pivot * excess, ones
