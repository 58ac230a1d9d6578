"""Sets of classes on the CPU, compiled: the recursion of `subsets`, class by class over all subsets."""

from __future__ import annotations

import numpy as np

from glws.inference._joint.compiling import Floats, Integers, kernel


@kernel
def extend(row: Floats, weights: Floats, longer: Floats) -> None:
    """One more instance: longer(T) = Σ_{k in T} w(k) (row(T) + row(T without k))."""
    longer[:] = 0.0
    bit = 1
    for column in range(weights.size):
        for block in range(0, row.size, 2 * bit):
            for without in range(block, block + bit):
                longer[without + bit] += weights[column] * (row[without] + row[without + bit])
        bit *= 2


@kernel
def absorb(row: Floats, weights: Floats, backward: Floats, longer: Floats, parts: Floats) -> None:
    """longer(T) = Σ_k w(k) backward(T with k), and the parts Σ_T row(T) w(k) backward(T with k)."""
    longer[:] = 0.0
    bit = 1
    for column in range(weights.size):
        part = 0.0
        for block in range(0, row.size, 2 * bit):
            for without in range(block, block + bit):
                term = weights[column] * backward[without + bit]
                longer[without] += term
                longer[without + bit] += term
                part += (row[without] + row[without + bit]) * term
        parts[column] = part
        bit *= 2


@kernel
def group_posterior(weights: Floats, smallest: float, marginals: Floats) -> float:
    """The mass of the labelings in which all columns occur, and the posteriors if it is above `smallest`."""
    length, size = weights.shape[0], 1 << weights.shape[1]
    forward = np.empty((length + 1, size))
    forward[0] = 0.0
    forward[0, 0] = 1.0
    for j in range(length):
        extend(forward[j], weights[j], forward[j + 1])
    mass: float = forward[length, size - 1]
    if mass > smallest:
        backward, longer = np.zeros(size), np.empty(size)
        backward[size - 1] = 1.0
        for j in range(length - 1, -1, -1):
            absorb(forward[j], weights[j], backward, longer, marginals[j])
            backward, longer = longer, backward
        marginals /= mass
    return mass


@kernel
def subset_batch(
    weights: Floats, sizes: Integers, lengths: Integers, smallest: float, masses: Floats, marginals: Floats
) -> None:
    """Solve all groups in turn; the classes that must occur are the first `sizes` columns."""
    for group in range(sizes.size):
        size, length = sizes[group], lengths[group]
        masses[group] = group_posterior(weights[group, :length, :size], smallest, marginals[group, :length, :size])
