"""Compiled: the recursion over instances, for short groups. All terms are positive, so it never cancels.

    forward[j, k] = weight of the first j instances with k of them counted
    backward[k]   = weight of the remaining instances, ω included, when k are counted so far

`table` has n + 4 rows of n + 2: n + 1 forward rows, the two probabilities of every instance, and `backward`. `row`
holds signed small sides (see `tilting`) on entry and the posteriors on return.
"""

from __future__ import annotations

import math

from glws.inference._counts.compiled.numeric import Vector, kernel, summing_kernel

# P(S = k) >= exp(-Σ (|z_j| + log 2)) for every k; above e^-600 nothing in the tables can underflow.
SAFE_NATS = 600.0


@summing_kernel
def depth(gap: Vector) -> float:
    """Σ_j (|z_j| + log 2): every count has at least e^-depth of the probability."""
    total = 0.0
    for j in range(gap.size):
        total += abs(gap[j])
    return total + 0.7 * gap.size


@kernel
def split(small: Vector, flip: bool, uncounted: Vector, counted: Vector) -> None:
    """Probabilities of the two labels from the signed small sides; `flip` counts the zeros instead of the ones."""
    for j in range(small.size):
        a = abs(small[j])
        is_likely = (small[j] < 0) != flip
        counted[j] = 1.0 - a if is_likely else a
        uncounted[j] = a if is_likely else 1.0 - a


@kernel
def fill_forward(uncounted: Vector, counted: Vector, high: int, forward: Vector) -> None:
    """Rows 0 .. n of the forward table, counts 0 .. min(j, high); column -1 of a row is never read."""
    forward[0, 0] = 1.0
    for j in range(counted.size):
        width = min(j, high)
        extend(forward[j], forward[j + 1], uncounted[j], counted[j], width)
        if j < high:
            forward[j + 1, j + 1] = forward[j, j] * counted[j]


@kernel
def extend(row: Vector, longer: Vector, p0: float, p1: float, width: int) -> None:
    """One more instance: longer[k] = row[k] p0 + row[k-1] p1 for k = 0 .. width."""
    longer[0] = row[0] * p0
    for k in range(1, width + 1):
        longer[k] = row[k] * p0 + row[k - 1] * p1


@summing_kernel
def absorb(row: Vector, backward: Vector, p0: float, p1: float, width: int) -> float:
    """Add one instance to `backward`; return Σ_k row[k] backward[k+1], its weight when counted, over p1."""
    total = 0.0
    for k in range(width + 1):
        after = backward[k + 1]
        total += row[k] * after
        backward[k] = p0 * backward[k] + p1 * after
    return total


@kernel
def walk_back(
    uncounted: Vector, counted: Vector, high: int, forward: Vector, backward: Vector, posterior: Vector
) -> float:
    """All posteriors of being counted, and Z. On entry backward[k] = ω(k), with one zero after `high`."""
    n = counted.size
    mass = 0.0
    for k in range(high + 1):
        mass += forward[n, k] * backward[k]
    for j in range(n - 1, -1, -1):
        share = absorb(forward[j], backward, uncounted[j], counted[j], min(j, high))
        posterior[j] = min(counted[j] * share / mass, 1.0)
    return mass


@kernel
def fill_decay(backward: Vector, low: int, high: int, center: int, theta: float) -> None:
    """ω under the tilt, e^{-θ (k - center)} on low .. high and 0 elsewhere."""
    backward[:] = 0.0
    for k in range(low, high + 1):
        backward[k] = 1.0 if theta == 0.0 else math.exp(-theta * (k - center))


@kernel
def interval_by_recursion(row: Vector, low: int, high: int, center: int, theta: float, table: Vector) -> float:
    """log Σ_k e^{-θ(k - center)} P_θ(S = k) over low <= k <= high, and all posteriors. Counts the rarer label."""
    n = row.size
    flip = n - low < high
    uncounted, counted, backward = table[n + 1, :n], table[n + 2, :n], table[n + 3, : n + 2]
    split(row, flip, uncounted, counted)
    if flip:
        low, high, center, theta = n - high, n - low, n - center, -theta
    fill_decay(backward, low, high, center, theta)
    fill_forward(uncounted, counted, high, table)
    mass = walk_back(uncounted, counted, high, table, backward, row)
    if flip:
        for j in range(n):
            row[j] = 1.0 - row[j]
    return math.log(mass)


@kernel
def weights_by_recursion(row: Vector, log_weights: Vector, table: Vector) -> float:
    """log Σ_k ω(k) P(S = k) and all posteriors; the caller has checked that nothing underflows."""
    n = row.size
    top = -math.inf
    for k in range(n + 1):
        top = max(top, log_weights[k])
    uncounted, counted, backward = table[n + 1, :n], table[n + 2, :n], table[n + 3, : n + 2]
    split(row, False, uncounted, counted)
    backward[n + 1] = 0.0
    for k in range(n + 1):
        backward[k] = math.exp(log_weights[k] - top)
    fill_forward(uncounted, counted, n, table)
    return math.log(walk_back(uncounted, counted, n, table, backward, row)) + top
