"""Count vectors on the CPU, compiled: the recursion of `layers`, state by state in numerical order.

A state comes after all its predecessors, so no layers are needed. `digits` are the counts of the current state,
advanced like an odometer; their sum is the number of instances so far.
"""

from __future__ import annotations

import numpy as np

from glws.inference._joint.compiling import Floats, Integers, kernel


@kernel
def step_up(digits: Integers, counts: Integers) -> int:
    """Advance to the next state; return by how much the sum of its counts is larger."""
    column = 0
    change = 1
    while digits[column] == counts[column]:
        change -= digits[column]
        digits[column] = 0
        column += 1
    digits[column] += 1
    return change


@kernel
def step_down(digits: Integers, counts: Integers) -> int:
    """Go back to the previous state; return by how much the sum of its counts is larger."""
    column = 0
    change = -1
    while digits[column] == 0:
        digits[column] = counts[column]
        change += counts[column]
        column += 1
    digits[column] -= 1
    return change


@kernel
def fill_forward(weights: Floats, counts: Integers, strides: Integers, forward: Floats) -> None:
    """forward(c) = Σ_k forward(c - e_k) w_j(k), with j the last of the Σ c instances so far."""
    digits = np.zeros_like(counts)
    level = 0
    forward[0] = 1.0
    for state in range(1, forward.size):
        level += step_up(digits, counts)
        total = 0.0
        for column in range(counts.size):
            if digits[column] > 0:
                total += forward[state - strides[column]] * weights[level - 1, column]
        forward[state] = total


@kernel
def add_parts(
    weights: Floats, counts: Integers, strides: Integers, forward: Floats, backward: Floats, parts: Floats
) -> None:
    """backward(c) = Σ_k w_j(k) backward(c + e_k), and parts Σ_c forward(c) w_j(k) backward(c + e_k)."""
    digits = counts.copy()
    level = counts.sum()
    backward[forward.size - 1] = 1.0
    for state in range(forward.size - 2, -1, -1):
        level += step_down(digits, counts)
        total = 0.0
        for column in range(counts.size):
            if digits[column] < counts[column]:
                term = weights[level, column] * backward[state + strides[column]]
                parts[level, column] += forward[state] * term
                total += term
        backward[state] = total


@kernel
def group_posterior(
    weights: Floats, counts: Integers, smallest: float, forward: Floats, backward: Floats, marginals: Floats
) -> float:
    """The mass of the labelings with these counts, and the posteriors if the mass is above `smallest`."""
    strides = np.ones_like(counts)
    for column in range(1, counts.size):
        strides[column] = strides[column - 1] * (counts[column - 1] + 1)
    size = strides[-1] * (counts[-1] + 1)
    fill_forward(weights, counts, strides, forward[:size])
    mass: float = forward[size - 1]
    if mass > smallest:
        add_parts(weights, counts, strides, forward[:size], backward[:size], marginals)
        marginals /= mass
    return mass


@kernel
def count_batch(
    weights: Floats, counts: Integers, most_states: int, smallest: float, masses: Floats, marginals: Floats
) -> None:
    """Solve all groups in turn. `marginals` must be zero, `counts` sorted from large to small."""
    forward, backward = np.empty(most_states), np.empty(most_states)
    for group in range(counts.shape[0]):
        used = max(np.count_nonzero(counts[group]), 1)
        masses[group] = group_posterior(
            weights[group, :, :used], counts[group, :used], smallest, forward, backward, marginals[group, :, :used]
        )
