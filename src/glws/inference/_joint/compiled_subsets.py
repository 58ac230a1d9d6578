"""Sets of classes on the CPU, compiled: the recursion of `subsets`, class by class over all subsets.

For large sets only the rare classes are remembered; the common ones C are counted in and out,

    Z = Σ_{T in C} (-1)^|C without T| Z(T)

where Z(T) is the mass of the labelings that have all rare classes and no class of C outside T. It shrinks with T, and
quickly where the classes of C occur almost surely: then little cancels, and few T matter.
"""

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


@kernel
def extend_mixed(row: Floats, weights: Floats, free: float, longer: Floats) -> None:
    """`extend` where an instance may also have a class that need not be remembered, with weight `free`."""
    for state in range(row.size):
        longer[state] = free * row[state]
    bit = 1
    for column in range(weights.size):
        for block in range(0, row.size, 2 * bit):
            for without in range(block, block + bit):
                longer[without + bit] += weights[column] * (row[without] + row[without + bit])
        bit *= 2


@kernel
def absorb_mixed(
    row: Floats, weights: Floats, free: float, sign: float, backward: Floats, longer: Floats, parts: Floats
) -> float:
    """`absorb` for `extend_mixed`; adds to the parts, and gives that of the other classes without their weight."""
    outside = 0.0
    for state in range(row.size):
        longer[state] = free * backward[state]
        outside += row[state] * backward[state]
    bit = 1
    for column in range(weights.size):
        part = 0.0
        for block in range(0, row.size, 2 * bit):
            for without in range(block, block + bit):
                term = weights[column] * backward[without + bit]
                longer[without] += term
                longer[without + bit] += term
                part += (row[without] + row[without + bit]) * term
        parts[column] += sign * part
        bit *= 2
    return sign * outside


@kernel
def sums_over(chosen: int, weights: Floats, free: Floats) -> None:
    """The sums over the chosen columns, as bits of a number."""
    free[:] = 0.0
    for column in range(weights.shape[1]):
        if chosen >> column & 1:
            for j in range(len(free)):
                free[j] += weights[j, column]


@kernel
def share_out(chosen: int, outside: Floats, weights: Floats, marginals: Floats) -> None:
    """marginals(j, k) += outside(j) w(j, k) for the chosen columns k."""
    for column in range(weights.shape[1]):
        if chosen >> column & 1:
            for j in range(len(outside)):
                marginals[j, column] += outside[j] * weights[j, column]


@kernel
def mixed_posterior(
    weights: Floats, rare: int, negligible: float, most: float, marginals: Floats
) -> tuple[float, float]:
    """Z and Σ_T Z(T), and the posteriors if Z > 0; the first `rare` columns are remembered.

    T and the sets inside it are left out where Z(T) is below a share `negligible` of all. Without an answer, Z = 0, if
    more than `most` of them are not.
    """
    length, common, last = weights.shape[0], weights.shape[1] - rare, (1 << rare) - 1
    own, others = np.ascontiguousarray(weights[:, :rare]), np.ascontiguousarray(weights[:, rare:])
    forward, backward, longer = np.zeros((length + 1, last + 1)), np.zeros(last + 1), np.zeros(last + 1)
    free, outside, mass, total = np.zeros(length), np.zeros(length), 0.0, 0.0
    stack = np.zeros((common * common + 1, 3), np.int64)  # T, the next class to leave out, and how many are left out
    stack[0, 0], top, visited = (1 << common) - 1, 1, 0
    marginals[:] = 0.0
    forward[0, 0] = 1.0
    while top > 0:
        top -= 1
        chosen, first, removed = stack[top, 0], stack[top, 1], stack[top, 2]
        sums_over(chosen, others, free)
        for j in range(length):
            extend_mixed(forward[j], own[j], free[j], forward[j + 1])
        part, sign, visited = forward[length, last], -1.0 if removed % 2 else 1.0, visited + 1
        mass += sign * part
        total += part
        if visited > most:
            return 0.0, total
        if part <= negligible * total:
            continue
        backward[:] = 0.0
        backward[last] = 1.0
        for j in range(length - 1, -1, -1):
            outside[j] = absorb_mixed(forward[j], own[j], free[j], sign, backward, longer, marginals[j, :rare])
            backward, longer = longer, backward
        share_out(chosen, outside, others, marginals[:, rare:])
        for column in range(first, common):
            stack[top, 0], stack[top, 1], stack[top, 2] = chosen & ~(1 << column), column + 1, removed + 1
            top += 1
    if mass > 0.0:
        marginals /= mass
    return mass, total
