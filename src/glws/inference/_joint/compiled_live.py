"""Count vectors that matter, compiled: the recursion of `layers` over the live count vectors only.

The weights of an instance sum to 1, so forward(c) is the probability of the counts c among the instances so far. What a
count vector contributes to the result is at most

    forward(c) · min_k P(n_k - c_k of the remaining instances are of class k)

and a count vector is dropped if that is below a threshold. The sum of the dropped bounds is a bound on the missing
mass. The second factor comes from a table: the counts of one class, by a recursion from the last instance to the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glws.inference._joint.compiling import Floats, Integers, kernel


class States(NamedTuple):
    """Storage for the states of one group, layer after layer."""

    keys: Integers
    """Σ_k c_k stride_k: the number of a count vector."""
    digits: Integers
    """c, [states, columns]."""
    forward: Floats
    backward: Floats
    after: Integers
    """The successor by the class of the next label, [states, columns]; -1: dropped or nonexistent."""
    moved: Integers
    """The new place of a state of the newest layer; -1: dropped."""
    places: Integers
    """The place of the state in the hash table."""
    table: Integers
    """Hash table from keys to states of the newest layer; its size is a power of two; -1: empty."""


@kernel
def fill_ahead(weights: Floats, counts: Integers, ahead: Floats) -> None:
    """ahead[j, k, m] = P(m of the instances from j on are of class k), for m up to counts[k]."""
    instances, columns = weights.shape
    ahead[instances] = 0.0
    ahead[instances, :, 0] = 1.0
    for j in range(instances - 1, -1, -1):
        for column in range(columns):
            weight, rest = weights[j, column], 0.0
            for other in range(columns):
                if other != column:
                    rest += weights[j, other]  # 1 - weight would lose parts below 1e-16
            ahead[j, column, 0] = ahead[j + 1, column, 0] * rest
            for m in range(1, counts[column] + 1):
                ahead[j, column, m] = ahead[j + 1, column, m] * rest + ahead[j + 1, column, m - 1] * weight


@kernel
def find_place(table: Integers, keys: Integers, key: int) -> int:
    """The place of the state with this key in the table, or the empty place for it."""
    place = (key * -7046029254386353131 >> 24) & (table.size - 1)
    while table[place] >= 0 and keys[table[place]] != key:
        place = (place + 1) & (table.size - 1)
    return place


@kernel
def add_layer(
    weights: Floats,
    counts: Integers,
    strides: Integers,
    ahead: Floats,
    cut: float,
    begin: int,
    end: int,
    states: States,
) -> tuple[int, float]:
    """Append the states that one more instance reaches from those in [begin, end).

    Returns their end, -1 if storage is full, and the dropped mass.
    """
    dropped, last, is_full = 0.0, end, False
    for state in range(begin, end):
        for column in range(counts.size):
            states.after[state, column] = -1
            left = counts[column] - states.digits[state, column] - 1
            part = states.forward[state] * weights[column]
            if left < 0 or part == 0.0:
                continue
            bound = part * ahead[column, left]
            if bound < 0.01 * cut:  # too little to open a state for
                dropped += bound
                continue
            key = states.keys[state] + strides[column]
            place = find_place(states.table, states.keys, key)
            found = states.table[place]
            if found < 0 and is_full:
                continue
            if found < 0:
                found = last
                states.table[place], states.places[last] = last, place
                states.keys[last], states.forward[last] = key, 0.0
                states.digits[last] = states.digits[state]
                states.digits[last, column] += 1
                last += 1
                is_full = last == states.keys.size
            states.forward[found] += part
            states.after[state, column] = found
        if is_full:
            break
    for new in range(end, last):
        states.table[states.places[new]] = -1
    return -1 if is_full else last, dropped


@kernel
def drop_states(
    counts: Integers, ahead: Floats, cut: float, begin: int, end: int, last: int, states: States
) -> tuple[int, float]:
    """Drop states in [end, last), the successors of [begin, end); return the new end and the dropped mass."""
    dropped, kept = 0.0, end
    for state in range(end, last):
        chance = 1.0
        for column in range(counts.size):
            chance = min(chance, ahead[column, counts[column] - states.digits[state, column]])
        bound = states.forward[state] * chance
        if bound < cut:
            dropped += bound
            states.moved[state] = -1
        else:
            states.moved[state] = kept
            states.keys[kept] = states.keys[state]
            states.forward[kept] = states.forward[state]
            states.digits[kept] = states.digits[state]
            kept += 1
    for state in range(begin, end):
        for column in range(counts.size):
            if states.after[state, column] >= 0:
                states.after[state, column] = states.moved[states.after[state, column]]
    return kept, dropped


@kernel
def fill_forward(weights: Floats, counts: Integers, ahead: Floats, cut: float, states: States, ends: Integers) -> float:
    """Compute all layers, write their ends (last -1 if storage is full), return a bound on dropped mass."""
    strides = np.zeros_like(counts)
    strides[1:] = 1  # the first class takes the remaining instances
    for column in range(2, counts.size):
        strides[column] = strides[column - 1] * (counts[column - 1] + 1)
    states.keys[0] = 0
    states.digits[0] = 0
    states.forward[0] = 1.0
    begin, end, total = 0, 1, 0.0
    ends[0] = 1
    for j in range(len(weights)):
        last, dropped = add_layer(weights[j], counts, strides, ahead[j + 1], cut, begin, end, states)
        total += dropped
        if last < 0:
            ends[-1] = -1
            return total
        last, dropped = drop_states(counts, ahead[j + 1], cut, begin, end, last, states)
        total += dropped
        begin, end = end, last
        ends[j + 1] = end
    return total


@kernel
def add_parts(weights: Floats, states: States, ends: Integers, parts: Floats) -> None:
    """Backward pass, and the mass of the labelings in which an instance has a class."""
    begin = ends[-2]
    states.backward[begin : ends[-1]] = 1.0
    for j in range(len(weights) - 1, -1, -1):
        begin = ends[j - 1] if j > 0 else 0
        for state in range(begin, ends[j]):
            total = 0.0
            for column in range(weights.shape[1]):
                target = states.after[state, column]
                if target >= 0:
                    term = weights[j, column] * states.backward[target]
                    parts[j, column] += states.forward[state] * term
                    total += term
            states.backward[state] = total


@kernel
def group_posterior(
    weights: Floats, counts: Integers, cut: float, ahead: Floats, states: States, marginals: Floats
) -> tuple[float, float]:
    """The mass found, 0 if storage is full or none exists; and a bound on the dropped mass.

    `marginals` must be zero and the hash table of the states empty.
    """
    ends = np.zeros(len(weights) + 1, dtype=np.int64)
    fill_ahead(weights, counts, ahead)
    dropped = fill_forward(weights, counts, ahead, cut, states, ends)
    if len(weights) == 0:
        return 1.0, 0.0
    if ends[-1] <= ends[-2]:
        return 0.0, dropped
    mass = states.forward[ends[-2]]
    add_parts(weights, states, ends, marginals)
    marginals /= mass
    return mass, dropped
